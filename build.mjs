#!/usr/bin/env node
// Builds dist/os-node.js: one minified CommonJS file that is the CLI, the SQL worker and the library at once (D1), with
// its types and dist/os-node-selftest.js (what plugin-test runs) beside it.
//   --install   first fetches the packages of package-lock.json when they are missing or changed
//   --start     what `npm start` needs: fetches only the packages that the bundle is made of, and builds without type files
//   --tests     also bundles test/**/*.test.ts to .build/test; --tests=TEXT,… those with a TEXT in their path
//   --no-types  skips the type files          --quiet    prints nothing          --any-size  has no limit of bytes (mutants)
//   --generate  only rewrites the committed tables that are made from packages (src/units/atoms.generated.json)
//   --deb       also makes the Debian packages; --deb=arm64,armhf those; --quick packs them less
//   --image     also makes the SD image of a board: --board rpi-4; --quick neither packs it nor its system tight
//               --sign KEY.pem also writes an update for boards, which accept updates by this key; --trust A.pem,B.pem also by those
//               --url ADDRESS of the folder where people download the image, for Raspberry Pi Imager
//               --overlays NAME+NAME,PARAMETER=VALUE switches on these of board/overlays
//               --firmware DIR adds firmware of radios that Debian does not carry
//               --kernel DEB --sha256 HASH takes a kernel of Raspberry Pi instead of Debian's
//   --release   ends with an error where a processor has no compiler here
// The addon is compiled to dist/native, and into the bundle, for each processor that has a compiler here: `--native` only that,
// `--quic` only the QUIC library,
// `--sanitize` only a build with address and undefined-behaviour sanitizers, whose folder it prints.
//
// Nothing here but the check of Node's version is imported before that has passed, and an old Node can read this file.
import './src/build/node-version.cjs'

import('./src/build/bundle.mjs').then(build => build.main())
