// Ends the process, with one line, on a Node that is too old. Written for every version of Node: it runs first in build.mjs and in the
// bundle, before anything that an old Node cannot parse.
!(() => {
  var version = process.versions.node.split('.').map(Number)
  if (version[0] > 20 || (version[0] === 20 && version[1] >= 19)) return
  console.error(
    'os-node needs Node 20.19 or newer, and ' +
      process.execPath +
      ' is ' +
      process.versions.node +
      '. See https://nodejs.org',
  )
  process.exit(1)
})()
