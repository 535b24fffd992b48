// The options of build.mjs. All are checked before anything is downloaded or built.
// What fails: an unknown option, a wrong value, a missing file (E_USAGE).
import { readOptions, usageError } from './command.mjs'
import { checkArchs } from './deb.mjs'
import { checkImage } from './image/check.mjs'

const HELP = `Builds dist/os-node.js: one minified CommonJS file that is the CLI, the SQL worker and the library at once, with its types and
dist/os-node-selftest.js (for plugin-test) next to it.

  npm run build -- [options]    node build.mjs --install
  npm run deb -- [options]      node build.mjs --install --deb
  npm run image -- [options]    node build.mjs --install --image

  --install         first downloads the packages of package-lock.json if they are missing or changed
  --start           for npm start: downloads only the packages of the bundle, and builds without type files
  --tests[=TEXT,…]  also bundles test/**/*.test.ts to .build/test, all or those with a TEXT in their path
  --no-types        skips the type files
  --quiet           prints nothing
  --any-size        ignores the size limit (mutants)
  --release         ends with an error if a processor has no compiler here
  --generate        only rewrites the committed tables that are made from packages (src/units/atoms.generated.json)
  --deb[=ARCH,…]    also makes the Debian packages, all or those of amd64, arm64, armhf
  --image           also makes the SD image of a board
  --quick           compresses packages less, does not compress the image, and its system less
  --help            prints this

With --image:
  --board NAME      rpi-3, rpi-4, rpi-5, rpi-zero-2-w, cm4, qemu-virt
  --sign KEY.pem    also writes an update for boards, which accept updates signed by this key
  --trust A.pem,…   the boards also accept updates signed by these keys
  --url ADDRESS     download folder of the image, for Raspberry Pi Imager
  --overlays LIST   enables these of board/overlays: NAME+NAME,PARAMETER=VALUE
  --firmware DIR    adds firmware of radios that Debian does not carry
  --kernel DEB      uses a kernel of Raspberry Pi instead of Debian's; --sha256 HASH is that of the package

The addon is compiled to dist/native, and into the bundle, for each processor that has a compiler here:
  --native          builds only the addon
  --quic            builds only the QUIC library; with --tests, builds all, and that library for every processor
  --sanitize        builds only the addon with address and undefined-behaviour sanitizers, and prints its folder

Examples:
  npm run image -- --board rpi-4 --sign release.pem
  npm run deb -- --deb=arm64,armhf`

const flag = { type: 'boolean' }
const text = { type: 'string' }
/** options that only an image uses */
const OF_IMAGE = ['board', 'sign', 'trust', 'url', 'overlays', 'firmware', 'kernel', 'sha256']
const FLAGS = 'install start no-types quiet any-size generate quick image release native quic sanitize'.split(' ')
/** in the format of parseArgs; see readOptions */
export const OPTIONS = {
  ...Object.fromEntries(FLAGS.map(name => [name, flag])),
  ...Object.fromEntries(OF_IMAGE.map(name => [name, text])),
  tests: { ...text, optional: true },
  deb: { ...text, optional: true },
}

/**
 * The options in `args`, where `deb` becomes `{ archs }` or undefined, and `image` the options of makeImage or undefined. `--help` ends
 * the process. Throws E_USAGE.
 */
export function buildOptions(root, args) {
  const values = readOptions(args, OPTIONS, HELP)
  const { board, sign, trust, url, overlays, firmware, kernel, sha256 } = values
  const archs = values.deb ? values.deb.split(',') : undefined
  checkArchs(archs)
  const stray = OF_IMAGE.find(name => values[name] !== undefined && !values.image)
  if (stray) throw usageError(`--${stray} is for an image: npm run image, or --image`)
  if (sha256 && !kernel) throw usageError('--sha256 is that of a kernel: give --kernel, too')
  const image = values.image && {
    board,
    ...(kernel && { kernel: { deb: kernel, sha256 } }),
    overlays: overlays?.split('+'),
    firmware,
    url,
    sign,
    trust: trust?.split(','),
  }
  if (image) checkImage(root, image)
  return { ...values, deb: values.deb === undefined ? undefined : { archs }, image }
}
