// The part of the bundle that Node itself reads; the program lies behind it in a comment. The build writes it in words of the
// oldest Node.
//
// It compiles the program from the bytecode that an earlier start left beside the bundle (os-node.<tag>.cache: CRC-32 of the
// program, CRC-32 of the bytecode, bytecode), which takes half the time of a start from its text. The tag is of this version of
// V8 and its flags. Bytecode runs unchecked, so only a file is read that no other user can write.
// Errors: without a cache, or with a stale, damaged or foreign one, the text is compiled. The command line then writes a new
// cache; where it cannot (a folder of another user, a full disk), the next start is slow again and nothing else changes.
!(() => {
  var fs = require('node:fs')
  var vm = require('node:vm')
  var crc32 = require('node:zlib').crc32
  var file = fs.readFileSync(__filename)
  var start = file.indexOf('\n/*\n') + 4
  var code = file.slice(start, file.indexOf('*/', start))
  var cacheFile = __filename.replace(/\.js$/, '') + '.' + require('node:v8').cachedDataVersionTag() + '.cache'
  var codeCrc = crc32(code)
  var cached
  var stat
  var users
  var bytes

  function readCache() {
    var fd = fs.openSync(cacheFile, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK)
    try {
      stat = fs.fstatSync(fd)
      users = [0, process.geteuid?.(), fs.statSync(__filename).uid]
      if (!stat.isFile() || stat.mode & 0o22 || users.indexOf(stat.uid) < 0) return
      bytes = fs.readFileSync(fd)
      if (bytes.readUInt32LE(0) === codeCrc && bytes.readUInt32LE(4) === crc32(bytes.slice(8))) return bytes.slice(8)
    } finally {
      fs.closeSync(fd)
    }
  }

  function writeCache(data) {
    var head = Buffer.alloc(8)
    head.writeUInt32LE(codeCrc, 0)
    head.writeUInt32LE(crc32(data), 4)
    if (fs.existsSync(cacheFile)) fs.unlinkSync(cacheFile)
    fs.writeFileSync(cacheFile, Buffer.concat([head, data]), { flag: 'wx', mode: 0o644 })
  }

  try {
    cached = readCache()
  } catch {} // there is none yet
  var wrapper = '(function(exports,require,module,__filename,__dirname,__importModule){'
  // the build breaks the end of a comment apart; positions are those of the file, for the source map
  var text = wrapper + code.latin1Slice().replace(/\*\x01/g, '*/') + '\n})'
  // Node prints a line of the sources instead of minified code only where the code names a map
  text += '\n//# sourceMappingURL=' + require('node:path').basename(__filename) + '.map'
  var script = new vm.Script(text, {
    filename: __filename,
    lineOffset: file.latin1Slice(0, start).split('\n').length - 1,
    columnOffset: -wrapper.length,
    cachedData: cached,
  })
  // code from a cache cannot import; this function can
  var importModule = url => import(url)
  script.runInThisContext().call(exports, exports, require, module, __filename, __dirname, importModule)
  if ((!cached || script.cachedDataRejected) && require.main === module)
    try {
      writeCache(script.createCachedData())
    } catch {} // the folder is of another user, or full
})()
