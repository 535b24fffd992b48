// Finds the places of faults in a source text and builds all faults into it, each behind a switch: OS_NODE_MUTANT is the id
// of the active one. With OS_NODE_MUTANT=0 and OS_NODE_REACHED=FILE a process appends to FILE the id of each fault that would
// have made a difference: a test that never reaches it cannot detect the fault. Errors: those of the parser.
import { parse } from '@babel/parser'

const SWAP = { '===': '!==', '!==': '===', '<': '>=', '>=': '<', '>': '<=', '<=': '>' }
const EDGE = { '<': '<=', '<=': '<', '>': '>=', '>=': '>' }
const TYPES_ONLY = /^(typeAnnotation|typeParameters|typeArguments|returnType|superTypeParameters|implements|id)$/

const PURE =
  /^(Identifier|PrivateName|ThisExpression|(Optional)?MemberExpression|(Binary|Logical|Conditional)Expression|TS(As|NonNull)Expression|(Numeric|BigInt|String|Boolean|Null)Literal)$/

/** True for an expression without calls, assignments and awaits. */
function isPure(node) {
  if (node.type === 'UnaryExpression' ? node.operator === 'delete' : !PURE.test(node.type)) return false
  return Object.entries(node).every(
    ([key, child]) => TYPES_ONLY.test(key) || typeof child?.type !== 'string' || isPure(child),
  )
}

/**
 * Every fault of the text, as `{kind, start, end, with}` for a replaced expression, or `{kind, at, end, insert(id)}` for text
 * around a statement (in braces, so that a following else still belongs to its if).
 */
export function faultsIn(text) {
  const ast = parse(text, { sourceType: 'module', plugins: ['typescript'] })
  const faults = []
  const cut = node => text.slice(node.start, node.end)
  const become = (kind, node, to, statement) =>
    faults.push({
      kind,
      start: node.start,
      end: node.end,
      with: to,
      statement: statement?.start === node.start,
      // evaluating it twice has no side effect, so the baseline run detects whether the fault makes a difference
      pure: (kind === 'boundary' || kind === 'condition') && isPure(node),
    })
  const visit = (node, parent, statement) => {
    if (!node || typeof node.type !== 'string') return
    if (node.type.startsWith('TS') && !/^TS(As|NonNull|Satisfies)Expression$/.test(node.type)) return
    if (node.declare) return
    if (node.type === 'ExpressionStatement') statement = node
    switch (node.type) {
      case 'BinaryExpression': {
        const [left, right] = [cut(node.left), cut(node.right)]
        if (SWAP[node.operator]) become('comparison', node, `${left} ${SWAP[node.operator]} ${right}`, statement)
        if (EDGE[node.operator]) become('boundary', node, `${left} ${EDGE[node.operator]} ${right}`, statement)
        break
      }
      case 'LogicalExpression':
        if (node.operator !== '??') {
          const other = node.operator === '&&' ? '||' : '&&'
          become('condition', node, `(${cut(node.left)}) ${other} (${cut(node.right)})`, statement)
        }
        break
      case 'IfStatement':
      case 'ConditionalExpression':
        become('condition', node.test, 'true')
        become('condition', node.test, 'false')
        break
      case 'NumericLiteral':
        if (!(parent.key === node && !parent.computed)) become('constant', node, `${node.value + 1}`, statement)
        break
      case 'BigIntLiteral':
        become('constant', node, `${BigInt(node.value) + 1n}n`, statement)
        break
      case 'BooleanLiteral':
        become('constant', node, `${!node.value}`, statement)
        break
      case 'AwaitExpression':
        become('removed await', node, cut(node.argument), statement)
        break
      case 'ExpressionStatement':
        if (/^(Call|Assignment|Update|Await|OptionalCall)Expression$/.test(node.expression.type))
          faults.push({
            kind: 'removed statement',
            at: node.start,
            end: node.end,
            insert: id => [`{ if (!__mutant(${id})) `, ' }'],
          })
        break
      case 'ThrowStatement':
        faults.push({
          kind: 'swallowed error',
          at: node.start,
          end: node.end,
          insert: id => [`{ if (!__mutant(${id})) `, ' }'],
        })
        break
      case 'BlockStatement':
        if (/Function|Method/.test(parent.type) && parent.kind !== 'constructor' && node.body.length > 0)
          faults.push({
            kind: 'early return',
            at: node.start + 1,
            end: node.start + 1,
            insert: id => [` if (__mutant(${id})) return; `, ''],
          })
        break
    }
    for (const [key, child] of Object.entries(node)) {
      if (TYPES_ONLY.test(key) || key === 'loc') continue
      if (Array.isArray(child)) for (const one of child) visit(one, node, statement)
      else visit(child, node, statement)
    }
  }
  visit(ast.program, ast, undefined)
  return faults
}

/**
 * Prepended to each changed text. A function declaration: modules that import each other call it before their first line has
 * run.
 */
const SWITCH = `function __mutant(id, to, was) {
  const env = globalThis.process?.env ?? {};
  const all = globalThis.__mutants ??= { on: Number(env.OS_NODE_MUTANT), file: env.OS_NODE_REACHED, seen: new Set() };
  if (all.on === id) return true;
  if (!all.file || all.seen.has(id)) return false;
  if (to) try {
    const value = to();
    if (typeof value === 'boolean' ? value === Boolean(was()) : Object.is(value, was())) return false;
  } catch {}
  all.seen.add(id);
  process.getBuiltinModule('node:fs').appendFileSync(all.file, id + '\\n');
  return false;
}; `.replaceAll('\n', ' ')

/** The text with all its faults, each inactive until OS_NODE_MUTANT is its id. */
export function withSwitches(text, faults) {
  const edits = []
  for (const { id, start, end, with: to, at, insert, statement, pure } of faults) {
    if (insert) {
      const [open, close] = insert(id)
      edits.push({ pos: at, rank: 1, size: end - at + 1, text: open })
      edits.push({ pos: end, rank: 0, size: at - end - 1, text: close })
    } else {
      const both = pure ? `, () => (${to}), () => (${text.slice(start, end)})` : ''
      const open = `${statement ? 'void ' : ''}(__mutant(${id}${both}) ? (${to}) : (`
      edits.push({ pos: start, rank: 1, size: end - start, text: open })
      edits.push({ pos: end, rank: 0, size: start - end, text: '))' })
    }
  }
  // closing before opening; the wider one opens first and closes last
  edits.sort((a, b) => a.pos - b.pos || a.rank - b.rank || b.size - a.size)
  let out = ''
  let from = 0
  for (const edit of edits) {
    out += text.slice(from, edit.pos) + edit.text
    from = edit.pos
  }
  return `${SWITCH}${out}${text.slice(from)}`
}
