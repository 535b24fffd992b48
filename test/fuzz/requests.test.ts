// Requests of a browser or another program of this machine: query strings, parts of paths, lines of the control socket.
import assert from 'node:assert/strict'
import { parseRequest } from '../../src/gateway/control'
import { decodePart, limit, offset, parseQuery, seconds, text } from '../../src/web/query'
import { fuzz } from './harness'
import { repeated } from './mutate'

// ---- query strings and parts of paths

fuzz({
  name: 'query',
  allowed: ['BAD_REQUEST'],
  seeds: [
    'limit=50&offset=0&device_id=a%20b',
    'since=1710000000&until=1710000001&status=OK',
    'a=b&a=c&limit=+7',
    '',
  ].map(search => Buffer.from(search)),
  words: [
    'limit=',
    'offset=',
    '&',
    '=',
    '%',
    '%00',
    '%c3',
    '__proto__=',
    'device_id=',
    '+',
    '%E2%82%AC',
    '99999999999999999999',
  ],
  run(input) {
    const search = input.toString('latin1')
    const values = parseQuery(search, { limit: limit(50), offset, since: seconds, device_id: text, __proto__x: text })
    assert.ok(Number.isInteger(values['limit']) && Number(values['limit']) >= 1 && Number(values['limit']) <= 500)
    assert.ok(Number.isInteger(values['offset']) && Number(values['offset']) >= 0)
    assert.equal(Object.getPrototypeOf(values), null)
    const part = decodePart(search, 'the path')
    assert.ok(!part.includes('\0'))
    return `${values['limit']}`.slice(0, 2) + typeof values['device_id'] + typeof values['since']
  },
  growing: {
    'of one value': n => Buffer.from(`device_id=${'%20'.repeat(n / 3)}`),
    'of keys': n => repeated('a=b&', n),
    'of digits': n => Buffer.from(`limit=${'9'.repeat(n)}`),
  },
})

// ---- lines of the control socket

fuzz({
  name: 'control-line',
  allowed: ['BAD_REQUEST'],
  seeds: [
    '{"id":1,"command":"status","options":{"json":true}}',
    '{"id":"x","argv":["log","verify"]}',
    '{"command":"a"}',
  ].map(text => Buffer.from(text)),
  words: ['"command":', '"argv":[', '"options":', '"__proto__":', 'null', '[]', '{}'],
  run(input) {
    const { command, options, argv } = parseRequest(input.toString('utf8'))
    assert.ok(argv ? argv.every(word => typeof word === 'string') : typeof command === 'string')
    assert.equal(Object.getPrototypeOf({}).x, undefined)
    return `${command === undefined}${Object.keys(options ?? {}).length}`
  },
  growing: {
    'of nesting': n => Buffer.from(`{"command":"a","options":{"a":${'['.repeat(n / 2)}${']'.repeat(n / 2)}}}`),
    'of words': n => Buffer.from(`{"argv":[${'"a",'.repeat(n / 4)}"a"]}`),
  },
})
