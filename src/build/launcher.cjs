// The part of the bundle that Node compiles at every start; the program follows it in a comment. The build transpiles it to ES5.
//
// It compiles the program from the bytecode that an earlier start wrote next to the bundle, or into the folder OS_NODE_BYTECODE if the
// bundle is another user's or read-only. That takes half the time of a start from the text. The file is os-node.<tag>.cache, whose tag names
// the version and flags of V8: a CRC-32 that identifies the program, the CRC-32 of the bytecode, 1 if it covers a gateway's start, 0, the
// bytecode. V8 compiles a function when it first runs, so the cache of a command has few of the functions that a gateway's start needs: a
// gateway emits osNodeStarted on process when it has started, and the cache is then written anew. Bytecode runs unchecked, so a file that
// other users can write is not read.
// A gateway limits its heap: V8's new space keeps its initial size (default: up to 32 MB), and the old space grows by 20 % between
// collections (default: up to fourfold on machines with much memory). V8 rejects bytecode made under other flags, so they are reset while
// the cache is made; --memory-saver-mode (V8 13) cannot be reset and is set after that.
// Errors: without a cache, or with a stale, damaged or foreign one, the text is compiled, and a command writes a new cache. If it cannot be
// written (a folder of another user, a full disk), the next start is slow again and nothing else changes.
!(() => {
  var fs = require('node:fs')
  var vm = require('node:vm')
  var crc32 = require('node:zlib').crc32
  var v8 = require('node:v8')
  var HEAD = 16
  var file = fs.readFileSync(__filename)
  var start = file.indexOf('\n/*\n') + 4
  var end = file.lastIndexOf('*/')
  var lines = file.latin1Slice(0, start).split('\n').length - 1
  var code = file.slice(start, end)
  var path = require('node:path')
  var folder = process.env.OS_NODE_BYTECODE || __dirname
  var cacheFile = path.join(folder, path.basename(__filename, '.js')) + '.' + v8.cachedDataVersionTag() + '.cache'
  var self = fs.statSync(__filename)
  // the text behind the program has the hash of all modules (manifest); an edit by hand changes the time
  var program = crc32(self.mtimeMs + ' ' + self.size + file.latin1Slice(end))
  var isGateway = require.main === module && /^(run|serve)$/.test(process.argv[2])
  var isV8From13 = parseInt(process.versions.v8, 10) >= 13
  var ofGateway = false
  var cached
  var at

  function readCache() {
    var fd = fs.openSync(cacheFile, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK)
    var users = [0, process.geteuid?.(), self.uid]
    var stat
    var bytes
    var data
    try {
      stat = fs.fstatSync(fd)
      if (!stat.isFile() || stat.mode & 0o22 || users.indexOf(stat.uid) < 0) return
      bytes = fs.readFileSync(fd)
      data = bytes.slice(HEAD)
      if (bytes.readUInt32LE(0) !== program || bytes.readUInt32LE(4) !== crc32(data)) return
      ofGateway = bytes.readUInt32LE(8) === 1
      return data
    } finally {
      fs.closeSync(fd)
    }
  }

  // What stays is compiled apart from the launcher, whose text it would keep in memory: two megabytes. V8 resets a growth factor below 2 to 2
  // when it makes the heap of a worker.
  var limit =
    isGateway &&
    vm.runInThisContext(
      '(function(s,old){function f(on){s("--semi-space-growth-factor="+(on?1:2));' +
        'old&&s("--heap-growing-percent="+(on?20:0))}' +
        'process.on("worker",function(w){w.once("online",f.bind(0,1))});return f})',
    )(v8.setFlagsFromString, !isV8From13)

  function writeCache(started) {
    var head = Buffer.alloc(HEAD)
    var data
    if (require.main !== module) return
    try {
      if (limit) limit(0)
      data = script.createCachedData()
      if (limit) limit(1)
      head.writeUInt32LE(program, 0)
      head.writeUInt32LE(crc32(data), 4)
      head.writeUInt32LE(started, 8)
      if (fs.existsSync(cacheFile)) fs.unlinkSync(cacheFile)
      fs.writeFileSync(cacheFile, Buffer.concat([head, data]), { flag: 'wx', mode: 0o644 })
    } catch {} // the folder is another user's, or full
  }

  try {
    cached = readCache()
  } catch {} // there is none yet
  var wrapper = '(function(exports,require,module,__filename,__dirname,__importModule){'
  // Node prints a line of the sources instead of minified code only where the code names a map
  var tail = '\n})\n//# sourceMappingURL=' + path.basename(__filename) + '.map'
  // the build broke every end of a comment: it is restored in place, so that positions fit the source map and the text becomes one string:
  // each copy would be two megabytes of memory
  for (at = code.indexOf(1); at >= 0; at = code.indexOf(1, at + 1)) if (code[at - 1] === 0x2a) code[at] = 0x2f
  file.latin1Write(wrapper, start - wrapper.length)
  file.latin1Write(tail, end)
  var script = new vm.Script(file.latin1Slice(start - wrapper.length, end + tail.length), {
    filename: __filename,
    lineOffset: lines,
    columnOffset: -wrapper.length,
    cachedData: cached,
  })
  var isStale = !cached || script.cachedDataRejected
  process.once('osNodeStarted', () => {
    if (isStale || !ofGateway) writeCache(1)
    if (isGateway && isV8From13) v8.setFlagsFromString('--memory-saver-mode')
  })
  // code from a cache cannot import; this function can
  var importModule = vm.runInThisContext('(function(url){return import(url)})', {
    importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  })
  cached = file = code = undefined
  if (limit) limit(1)
  script.runInThisContext().call(exports, exports, require, module, __filename, __dirname, importModule)
  if (isStale) writeCache(0)
})()
