// What a test asserts: a refusal is compared with its expected error, nothing is compared with itself, and no assertion is a
// literal `true`. Such an assertion passes whatever the code does.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { type ParseResult, parse } from '@babel/parser'
import { root } from '../../lib/gateway'

type AnyNode = { type: string; start: number; end: number; loc: { start: { line: number } } } & Record<string, unknown>

function* calls(node: unknown): Generator<AnyNode> {
  if (Array.isArray(node)) for (const one of node) yield* calls(one)
  else if (typeof (node as AnyNode | null)?.type === 'string') {
    if ((node as AnyNode).type === 'CallExpression') yield node as AnyNode
    for (const [key, child] of Object.entries(node as AnyNode)) if (key !== 'loc') yield* calls(child)
  }
}

/** One line for each assertion of the text that cannot fail, or that any error satisfies. */
function emptyAssertions(file: string, text: string): string[] {
  const ast: ParseResult = parse(text, { sourceType: 'module', plugins: ['typescript'] })
  const cut = (node: AnyNode): string => text.slice(node.start, node.end)
  return [...calls(ast.program)].flatMap(call => {
    const args = call.arguments as AnyNode[]
    const [first, second] = args.map(cut)
    const name = cut(call.callee as AnyNode)
    const empty =
      (/^assert\.(rejects|throws)$/.test(name) && args.length < 2) ||
      (/^assert\.(equal|deepEqual|strictEqual|deepStrictEqual)$/.test(name) && first === second) ||
      (/^assert(\.ok)?$/.test(name) && /^(true|\d+)$/.test(first ?? ''))
    return empty ? [`${file}:${call.loc.start.line}: ${cut(call).slice(0, 80)}`] : []
  })
}

test('every assertion can fail, and names the error it expects', () => {
  const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' }).filter(f => f.endsWith('.ts'))
  const faults = files.flatMap(file => {
    const text = readFileSync(join(root, 'test', file), 'utf8')
    return text.includes('assert') ? emptyAssertions(file, text) : []
  })
  assert.ok(files.length > 100)
  assert.deepEqual(faults, [])
})

test('the check recognizes each kind of empty assertion', () => {
  const text = 'assert.throws(f)\nassert.rejects(g(), /x/)\nassert.equal(a.b, a.b)\nassert.ok(true)\nassert.ok(a)'
  assert.deepEqual(
    emptyAssertions('x.ts', text).map(line => line.split(': ')[0]),
    ['x.ts:1', 'x.ts:3', 'x.ts:4'],
  )
})
