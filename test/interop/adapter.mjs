#!/usr/bin/env node
// Serves the vectors' JSON lines (one request in, one answer out, in order) with the built library: the small entry
// point of adapter.ts, which `node build.mjs --tests` bundles to .build/test/interop/adapter.js.
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const require = createRequire(import.meta.url)
const { answer } = require('../../.build/test/interop/adapter.js')
const library = require('../../dist/os-node.js')

for await (const line of createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
  if (line.trim() !== '') process.stdout.write(`${JSON.stringify(answer(library, JSON.parse(line)))}\n`)
}
