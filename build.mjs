#!/usr/bin/env node
// Builds dist/os-node.js: one minified CommonJS file that is the CLI, the SQL worker and the library at once (D1), with
// its types and dist/os-node-selftest.js (for plugin-test) next to it.
//   --install   first downloads the packages of package-lock.json if they are missing or changed
//   --start     for `npm start`: downloads only the packages of the bundle, and builds without type files
//   --tests     also bundles test/**/*.test.ts to .build/test; --tests=TEXT,… those with a TEXT in their path
//   --no-types  skips the type files          --quiet    prints nothing          --any-size  ignores the size limit (mutants)
//   --generate  only rewrites the committed tables that are made from packages (src/units/atoms.generated.json)
//   --deb       also makes the Debian packages; --deb=arm64,armhf those; --quick compresses them less
//   --image     also makes the SD image of a board: --board rpi-4; --quick does not compress it, and its system less
//               --sign KEY.pem also writes an update for boards, which accept updates signed by this key; --trust A.pem,B.pem also by those
//               --url ADDRESS of the download folder of the image, for Raspberry Pi Imager
//               --overlays NAME+NAME,PARAMETER=VALUE enables these of board/overlays
//               --firmware DIR adds firmware of radios that Debian does not carry
//               --kernel DEB --sha256 HASH uses a kernel of Raspberry Pi instead of Debian's
//   --release   ends with an error if a processor has no compiler here
// The addon is compiled to dist/native, and into the bundle, for each processor that has a compiler here: `--native` only that,
// `--quic` only the QUIC library,
// `--sanitize` only a build with address and undefined-behaviour sanitizers, whose folder it prints.
//
// Only the check of Node's version is imported before it has passed, and an old Node can parse this file.
import './src/build/node-version.cjs'

import('./src/build/bundle.mjs').then(build => build.main())
