#!/usr/bin/env node
// Builds dist/os-node.js and what is made of it; --help lists the options (src/build/options.mjs).
//
// Only the check of Node's version is imported before it has passed, and an old Node can parse this file.
import './src/build/node-version.cjs'

import('./src/build/bundle.mjs').then(build => build.main())
