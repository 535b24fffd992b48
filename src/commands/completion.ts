// The completion script of a shell, made from the verbs' own schemas, so that it cannot offer what the parser refuses. zsh takes
// the script of bash through its own bashcompinit. The script starts no program: what it offers is in it.
import { MEDIA } from '../links/registry'
import { GLOBAL_OPTIONS, type OptionSpec, type Verb } from './verb'

export const SHELLS = ['bash', 'zsh'] as const
export type Shell = (typeof SHELLS)[number]

/** Words in single quotes for a shell; none of ours holds a quote. */
const quoted = (words: Iterable<string>): string => `'${[...words].join(' ')}'`

const namesOf = ({ name, aliases = [] }: Verb): string[] => [name, ...aliases].filter(word => !word.startsWith('os-'))

/** One branch of a `case`; patterns that lead to the same are one. */
function branches(cases: ReadonlyMap<string, readonly string[]>): string {
  return [...cases]
    .filter(([, patterns]) => patterns.length > 0)
    .map(([then, patterns]) => `    ${patterns.join('|')}) ${then} ;;`)
    .join('\n')
}

/** Names of files may hold blanks; bash marks folders by a slash, zsh has no compopt. */
const files = (kind: 'f' | 'd'): string =>
  `local IFS=$'\\n'; compopt -o filenames 2> /dev/null; COMPREPLY=( $(compgen -${kind} -- "$cur") ); return 0`

/** What to do where the value of an option stands. */
function offerFor({ value, choices }: OptionSpec, keys: string): string {
  if (choices) return `words=${quoted(choices)}`
  if (value === 'PATH') return files('f')
  if (value === 'DIR') return files('d')
  if (value === 'MEDIUM') return `words=${quoted(MEDIA.map(({ name }) => name))}`
  if (value === 'KEY') return `words=${keys}`
  return 'return 0'
}

/** `programs`: names of this program and, where one stands for a verb, that verb. `keys`: of the configuration. */
export function completionScript(
  shell: Shell,
  verbs: readonly Verb[],
  programs: Readonly<Record<string, string | null>>,
  keys: readonly string[],
): string {
  const all = verbs.flatMap(namesOf)
  const firsts = new Set(all.map(name => name.split(' ')[0]!))
  const pairs = all.filter(name => name.includes(' '))
  const values = new Map<string, string[]>()
  const words = new Map<string, string[]>()
  const add = (to: Map<string, string[]>, then: string, pattern: string): void => {
    to.set(then, [...(to.get(then) ?? []), pattern])
  }
  for (const verb of verbs) {
    const options = { ...verb.options, ...GLOBAL_OPTIONS }
    const operands = (verb.operands ?? []).flatMap(name => options[name]?.choices ?? [])
    const flags = Object.keys(options).map(name => `--${name}`)
    for (const name of namesOf(verb)) {
      for (const [option, spec] of Object.entries(options))
        if (spec.type !== 'boolean') add(values, offerFor(spec, '$keys'), `'${name} --${option}'`)
      const below = pairs.filter(pair => pair.startsWith(`${name} `)).map(pair => pair.split(' ')[1]!)
      add(words, `words=${quoted([...operands, ...below, ...flags])}`, `'${name}'`)
    }
  }
  for (const first of firsts)
    if (!all.includes(first))
      add(
        words,
        `words=${quoted(pairs.filter(pair => pair.startsWith(`${first} `)).map(pair => pair.split(' ')[1]!))}`,
        `'${first}'`,
      )
  add(words, `words=${quoted(firsts)}`, "'help'")
  const named = Object.entries(programs).flatMap(([program, verb]) =>
    verb === null ? [] : [`    ${program}) verb='${verb}' ;;`],
  )
  const zsh = [
    '(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }',
    'autoload -Uz bashcompinit && bashcompinit',
  ]
  return `# completion of os-node for ${shell}: source <(os-node completion ${shell})
${shell === 'zsh' ? `${zsh.join('\n')}\n` : ''}_os_node() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} verb='' words=''
  local keys=${quoted(keys)}
  COMPREPLY=()
  case \${COMP_WORDS[0]##*/} in
${named.join('\n')}
  esac
  if [[ $verb == '' ]]; then
    if [[ $COMP_CWORD -eq 1 ]]; then
      COMPREPLY=( $(compgen -W ${quoted([...firsts, 'help', '--help', '--version'])} -- "$cur") )
      return 0
    fi
    verb=\${COMP_WORDS[1]}
    if [[ $COMP_CWORD -gt 2 ]]; then
      case "$verb \${COMP_WORDS[2]}" in
        ${pairs.map(pair => `'${pair}'`).join('|')}) verb="$verb \${COMP_WORDS[2]}" ;;
      esac
    fi
  fi
  case "$verb $prev" in
${branches(values)}
  esac
  if [[ $words == '' ]]; then
    case "$verb" in
${branches(words)}
    esac
  fi
  COMPREPLY=( $(compgen -W "$words" -- "$cur") )
}
complete -F _os_node ${Object.keys(programs).join(' ')}
`
}
