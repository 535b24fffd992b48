// The completion script of a shell, generated from the schemas of verbs and plugin commands, so that it offers exactly
// what the parser accepts. zsh uses the bash script through its bashcompinit. The script starts no program: all offers
// are in it.
import type { OptionSpec } from '../lib/command-options'
import { MEDIA } from '../links/registry'
import { type AnyVerb, GLOBAL_OPTIONS } from './verb'

export const SHELLS = ['bash', 'zsh'] as const
export type Shell = (typeof SHELLS)[number]

type Options = Readonly<Record<string, OptionSpec>>

/** What can follow some words: each spelling of those words, the words that may follow, and the options. */
interface Node {
  readonly spellings: readonly string[]
  readonly words: readonly string[]
  readonly options: Options
}

/** A plugin: its name, its verb (if any), and its commands. */
export interface CompletedPlugin {
  readonly name: string
  readonly verb?: AnyVerb
  readonly commands: Readonly<Record<string, { readonly options?: Options; readonly operands?: readonly string[] }>>
}

/** The input of the script. */
interface Offers {
  readonly verbs: readonly AnyVerb[]
  readonly plugins: readonly CompletedPlugin[]
  /** names of this program → the verb of that name, or null */
  readonly programs: Readonly<Record<string, string | null>>
  /** of the configuration */
  readonly keys: readonly string[]
}

const HELP: Options = { help: GLOBAL_OPTIONS.help! }

/** Words in single quotes for a shell; no word contains a quote. */
const quoted = (words: Iterable<string>): string => `'${[...words].join(' ')}'`

const namesOf = ({ name, aliases = [] }: AnyVerb): string[] =>
  [name, ...aliases].filter(word => !word.startsWith('os-'))

const choicesOf = (operands: readonly string[] = [], options: Options = {}): string[] =>
  operands.flatMap(name => [...(options[name]?.choices ?? [])])

/** File names may contain blanks; bash marks folders with a slash, zsh has no compopt. */
const files = (kind: 'f' | 'd'): string =>
  `local IFS=$'\\n'; compopt -o filenames 2> /dev/null; COMPREPLY=( $(compgen -${kind} -- "$cur") ); return 0`

/** The completion of an option's value. */
function offerFor({ value, choices }: OptionSpec): string {
  if (choices) return `offer=${quoted(choices)}`
  if (value === 'PATH') return files('f')
  if (value === 'DIR') return files('d')
  if (value === 'MEDIUM') return `offer=${quoted(MEDIA.map(({ name }) => name))}`
  if (value === 'KEY') return 'offer=$keys'
  if (value === 'PLUGIN') return 'offer=$plugins'
  return 'return 0'
}

function nodesOf({ verbs, plugins }: Offers): Node[] {
  const names = verbs.flatMap(namesOf)
  const below = (first: string): string[] =>
    names.flatMap(name => (name.startsWith(`${first} `) ? [name.slice(first.length + 1)] : []))
  const all: Node[] = verbs.flatMap(verb => {
    const options = { ...verb.options, ...GLOBAL_OPTIONS }
    const own = verb.name === 'plugin-cmd' ? plugins.map(({ name }) => name) : choicesOf(verb.operands, options)
    const commands = Object.keys(plugins.find(one => one.verb === verb)?.commands ?? {})
    return namesOf(verb).map(name => ({ spellings: [name], words: [...own, ...below(name), ...commands], options }))
  })
  const firsts = new Set(names.map(name => name.split(' ')[0]!))
  for (const first of firsts)
    if (!names.includes(first)) all.push({ spellings: [first], words: below(first), options: {} })
  all.push({ spellings: ['help'], words: [...firsts], options: {} })
  for (const { name, verb, commands } of plugins) {
    const generic = [...new Set([name, name.replaceAll('_', '-')])].map(spelled => `plugin-cmd ${spelled}`)
    const spellings = [...generic, ...(verb ? namesOf(verb) : [])]
    all.push({ spellings: generic, words: Object.keys(commands), options: GLOBAL_OPTIONS })
    for (const [command, { options = {}, operands }] of Object.entries(commands))
      all.push({
        spellings: spellings.map(spelling => `${spelling} ${command}`),
        words: choicesOf(operands, options),
        options: { ...options, ...HELP },
      })
  }
  return all
}

export function completionScript(shell: Shell, offers: Offers): string {
  const nodes = nodesOf(offers)
  const patterns = new Map<string, string[]>()
  const places: [length: number, line: string][] = []
  const words = nodes.map(({ spellings, words: free, options }, at) => {
    for (const spelling of spellings) places.push([spelling.length, `    '${spelling} '*) at=${at} ;;`])
    for (const [name, spec] of Object.entries(options)) {
      // words after --cmd are also accepted without it
      if (spec.type === 'boolean' || name === 'cmd') continue
      const offer = offerFor(spec)
      patterns.set(offer, [...(patterns.get(offer) ?? []), `'${at} --${name}'`])
    }
    return `    ${at}) offer=${quoted([...free, ...Object.keys(options).map(name => `--${name}`)])} ;;`
  })
  const values = [...patterns].map(([offer, all]) => `    ${all.join('|')}) ${offer} ;;`)
  const named = Object.entries(offers.programs).flatMap(([program, verb]) =>
    verb === null ? [] : [`    ${program}) line='${verb} ' ;;`],
  )
  const firsts = new Set(offers.verbs.flatMap(namesOf).map(name => name.split(' ')[0]!))
  const zsh = [
    '(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }',
    'autoload -Uz bashcompinit && bashcompinit',
  ]
  return `# completion of os-node for ${shell}: source <(os-node completion ${shell})
${shell === 'zsh' ? `${zsh.join('\n')}\n` : ''}_os_node() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} line='' at='' offer='' k=1
  local keys=${quoted(offers.keys)}
  local plugins=${quoted(offers.plugins.map(({ name }) => name))}
  COMPREPLY=()
  # bash takes --name=value apart
  if [[ $cur == '=' ]]; then cur=''
  elif [[ $prev == '=' ]]; then prev=\${COMP_WORDS[COMP_CWORD-2]}
  fi
  case \${COMP_WORDS[0]##*/} in
${named.join('\n')}
  esac
  # the words in front of the first option
  while [[ $k -lt $COMP_CWORD ]]; do
    case \${COMP_WORDS[k]} in
      --cmd|--plugin|--|=) ;;
      -*) break ;;
      *) line="$line\${COMP_WORDS[k]} " ;;
    esac
    k=$((k+1))
  done
  if [[ $line == '' ]]; then
    if [[ $COMP_CWORD -eq 1 ]]; then
      COMPREPLY=( $(compgen -W ${quoted([...firsts, 'help', '--help', '--version'])} -- "$cur") )
    fi
    return 0
  fi
  case "$line" in
${places
  .sort(([a], [b]) => b - a)
  .map(([, line]) => line)
  .join('\n')}
  esac
  case "$at $prev" in
${values.join('\n')}
  esac
  if [[ $offer == '' ]]; then
    case "$at" in
${words.join('\n')}
    esac
  fi
  COMPREPLY=( $(compgen -W "$offer" -- "$cur") )
}
complete -F _os_node ${Object.keys(offers.programs).join(' ')}
`
}
