// Which tests name what (build time only): routes, commands, configuration keys and plugins are looked for in the test files
// themselves, comments left out. A thing counts as tested when a test file names it where it is used:
// - a route by its path as a text, and its method beside it unless it is GET;
// - a command as the first word of a command line, in a file that runs commands;
// - a key by its dotted name, as a property inside the object that belongs to it, or as a property whose name no other key has;
//   an option of a medium also as a property in a test of that medium;
// - a plugin by the import of its folder, or by its name where it is loaded or one of its commands is run;
// - a command of a plugin behind the plugin's name in a command line or call, or where a test of the plugin calls it by name.
import { readdirSync, readFileSync } from 'node:fs'
import { join, sep } from 'node:path'

/** The text without comments, and its string literals with where they start. */
export function readSource(text) {
  const literals = []
  let code = ''
  for (let at = 0; at < text.length; ) {
    const two = text.slice(at, at + 2)
    if (two === '//') at = endOf(text, '\n', at)
    else if (two === '/*') at = endOf(text, '*/', at) + 2
    else if ('\'"`'.includes(text[at])) {
      const end = literalEnd(text, at)
      literals.push({ at: code.length, text: text.slice(at + 1, end) })
      code += text.slice(at, end + 1)
      at = end + 1
    } else if (text[at] === '/' && /[(,=:[!&|?{};]\s*$/.test(code.slice(-20))) {
      // a regular expression may hold quotes
      const end = regexEnd(text, at)
      literals.push({ at: code.length, text: text.slice(at + 1, end).replaceAll('\\', '') })
      code += ' '.repeat(end + 1 - at)
      at = end + 1
    } else code += text[at++]
  }
  return { code, literals }
}

const endOf = (text, what, from) => {
  const end = text.indexOf(what, from)
  return end < 0 ? text.length : end
}

function literalEnd(text, from) {
  const quote = text[from]
  for (let at = from + 1; at < text.length; at++) {
    if (text[at] === '\\') at++
    else if (text[at] === quote) return at
    else if (quote !== '`' && text[at] === '\n') return at
    else if (quote === '`' && text.startsWith('${', at)) {
      for (let depth = 1, k = at + 2; k < text.length; k++) {
        if (text[k] === '{') depth++
        else if (text[k] === '}' && --depth === 0) {
          at = k
          break
        }
      }
    }
  }
  return text.length
}

function regexEnd(text, from) {
  let inClass = false
  for (let at = from + 1; at < text.length; at++) {
    if (text[at] === '\\') at++
    else if (text[at] === '\n') return at
    else if (text[at] === '[') inClass = true
    else if (text[at] === ']') inClass = false
    else if (text[at] === '/' && !inClass) return at
  }
  return text.length
}

const escaped = text => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

const NEAR = 200

/** `POST /users/:username` → does this file name it? */
function routeTest(name) {
  const [method, path] = name.split(' ')
  const pattern = path
    .split('/')
    .map(part => (part.startsWith(':') ? '[^/?#\\s]+' : escaped(part)))
    .join('/')
  const literal = new RegExp(`(?:^|[}\\d\\s])${pattern}(?:$|[?#\\s])`)
  const verb = new RegExp(`\\b${method}\\b`, 'i')
  return ({ code, literals }) =>
    literals.some(
      ({ at, text }) =>
        literal.test(text) &&
        (method === 'GET' || verb.test(code.slice(Math.max(0, at - NEAR), at + text.length + NEAR))),
    )
}

/** what a file says that runs commands */
const RUNS = /\b(?:runCli|runRequest|parseCommand|findVerb|askControl|Machine|cli|execute|oscli|verbs)\b/

function commandTest(name) {
  const words = escaped(name).replace(' ', "(?: |', ')")
  const line = new RegExp(
    `(?:[([]\\s*(?:\\[\\s*)?|command: ?|verb: ?|os-node )['"\`]?(?:os-node )?${words}(?:['"\`]| --| [A-Z])`,
  )
  return ({ code }) => RUNS.test(code) && line.test(code)
}

/** `gateway.sources[].name` → `gateway.sources.name` */
const plain = key => key.replaceAll('[]', '')

/** places where options of media and sources are: the same option, by the same schema, wherever it is set */
const PLACES = /^(?:RESOURCES\.(?:application|transport|physical)_config\.\w+|gateway\.(?:uplinks|receivers|sources))\./

const leafOf = key => key.slice(key.lastIndexOf('.') + 1)

/**
 * Names that say which key is meant without the object around them: of several words, and no two keys share them (options of
 * media and sources count once).
 */
export function unambiguousNames(keys) {
  const meant = new Map()
  for (const key of keys) {
    const one = plain(key)
    const leaf = leafOf(one)
    meant.set(leaf, (meant.get(leaf) ?? new Set()).add(one.replace(PLACES, '')))
  }
  return new Set([...meant].filter(([leaf, keys]) => leaf.includes('_') && keys.size === 1).map(([leaf]) => leaf))
}

/** words in the path of test files that belong to a medium, where they are not its name */
const FILES_OF = { uart: 'uart|serial', rs485: 'rs485|serial', tcp: 'tcp|tls', iwip: 'iwip|slip', uip: 'uip|slip' }

/** Which test files belong to the media that have an option: one of the medium that the key names, or of all that have it. */
function filesOfOption(key, keys) {
  const option = key.replace(PLACES, '')
  const media = keys
    .map(plain)
    .filter(one => one.endsWith(`.${option}`) && one.replace(PLACES, '') === option)
    .map(one => /_config\.(\w+)\./.exec(one)?.[1])
    .filter(Boolean)
  const own = /_config\.(\w+)\./.exec(key)?.[1]
  const words = (own ? [own] : media).map(medium => FILES_OF[medium] ?? medium)
  return words.length > 0 ? new RegExp(words.join('|')) : null
}

function keyTest(key, { unambiguous, keys }) {
  const wanted = plain(key)
  const text = new RegExp(`(?:^|[^\\w.])${wanted.split('.').map(escaped).join('(?:\\[\\]|\\.\\d+)?\\.')}(?:$|[^\\w])`)
  const leaf = leafOf(wanted)
  const name = unambiguous.has(leaf) ? leaf : wanted.split('.').slice(-2).join('.')
  const ofMedium = PLACES.test(wanted) ? filesOfOption(wanted, keys) : null
  const option = wanted.replace(PLACES, '')
  return ({ file, literals, paths }) =>
    paths.has(wanted) ||
    ((name.includes('.') || unambiguous.has(name)) && paths.has(name)) ||
    (ofMedium?.test(file) && paths.has(option)) ||
    literals.some(l => text.test(l.text))
}

/** folder and verb of plugins that are called otherwise */
const CALLED = { dependency_manager: '(?:dependencies|deps)' }

function pluginTest(name) {
  const dashed = CALLED[name] ?? name.replaceAll('_', '-')
  const folder = new RegExp(`src/(?:services/)?${dashed}(?:/|$)`)
  const either = `'(?:${name}|${dashed})'`
  const used = new RegExp(
    `(?:'plugin-(?:cmd|load)', |ensureAndMountPlugin\\([^,()]*, |\\.(?:load|start|command)\\()${either}|[([]'${dashed}', '`,
  )
  return ({ code, literals }) => used.test(code) || literals.some(({ text }) => folder.test(text))
}

/** `port_forwarder add-rule` */
function pluginCommandTest(name) {
  const [plugin, command] = name.split(' ')
  const dashed = CALLED[plugin] ?? plugin.replaceAll('_', '-')
  const folder = new RegExp(`src/(?:services/)?${dashed}(?:/|$)`)
  const word = escaped(command)
  const line = new RegExp(`'(?:${plugin}|${dashed})', (?:\\[)?(?:'--cmd', )?'${word}'`)
  const call = new RegExp(`(?:\\brun\\('${word}'|\\.${word}!?\\.run\\()`)
  return ({ code, literals }) =>
    (RUNS.test(code) && line.test(code)) || (literals.some(({ text }) => folder.test(text)) && call.test(code))
}

/** Paths of properties in object literals: the whole one, its last two names, and its last. */
export function propertyPaths({ code, literals }) {
  const paths = new Set()
  const stack = []
  let pending = null
  const texts = new Map(literals.map(({ at, text }) => [at, text]))
  let before = ''
  for (let at = 0; at < code.length; ) {
    const literal = texts.get(at)
    const name = literal === undefined ? /^[A-Za-z_$][\w$]*/.exec(code.slice(at, at + 80))?.[0] : literal
    if (name !== undefined) {
      at += literal === undefined ? name.length : literal.length + 2
      const next = /^\s*(.)/s.exec(code.slice(at, at + 40))?.[1]
      // `name: value`, or the name alone inside an object that has one itself
      const alone = literal === undefined && stack.at(-1) && (next === ',' || next === '}')
      if ((next === ':' || alone) && (before === '{' || before === ',')) {
        pending = next === ':' ? name : null
        const path = [...stack.filter(Boolean), name]
        paths.add(path.join('.'))
        paths.add(path.slice(-2).join('.'))
        paths.add(name)
      }
      before = 'x'
      continue
    }
    const char = code[at++]
    if (/\s/.test(char)) continue
    if (char === '{') {
      stack.push(pending)
      pending = null
    } else if (char === '[' || char === '(') {
      // elements of a list belong to its name
      stack.push(char === '[' ? pending : null)
      pending = null
    } else if ('}])'.includes(char)) stack.pop()
    if (char === ',' || char === ';') pending = null
    before = char
  }
  return paths
}

const KINDS = {
  routes: routeTest,
  commands: commandTest,
  keys: keyTest,
  plugins: pluginTest,
  plugin_commands: pluginCommandTest,
}

/** name things that they do not test: the floors of rooms, and what this scan is tried on */
const NO_TESTS = /(?:^|[\\/])(?:house[\\/].*|audit\.test\.ts)$/

/** Every test file of the project, read. */
export function testSources(root) {
  const dir = join(root, 'test')
  return readdirSync(dir, { recursive: true })
    .map(String)
    .filter(name => name.endsWith('.test.ts') && !NO_TESTS.test(name))
    .sort()
    .map(name => {
      const source = readSource(readFileSync(join(dir, name), 'utf8'))
      return { file: name.split(sep).join('/'), ...source, paths: propertyPaths(source) }
    })
}

/**
 * For each name, sorted, how many test files name it and one of them: `{files, routes: [[count, file], …], …}`; a gap is
 * `[0]`. `names`: the names by kind.
 */
export function scanTests(names, sources) {
  const files = []
  const numberOf = file => {
    if (!files.includes(file)) files.push(file)
    return files.indexOf(file)
  }
  const found = { files }
  const keys = names.keys ?? []
  const known = { unambiguous: unambiguousNames(keys), keys }
  for (const [kind, make] of Object.entries(KINDS))
    found[kind] = [...(names[kind] ?? [])].sort().map(name => {
      const hits = sources.filter(make(name, known))
      return hits.length === 0 ? [0] : [hits.length, numberOf(hits[0].file)]
    })
  return found
}
