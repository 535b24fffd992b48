// completion: the script that makes a shell complete commands, options and their values.
import { completionScript, SHELLS, type Shell } from '../completion'
import { PROGRAMS } from '../programs'
import type { Verb } from '../verb'

/** `verbs`: all of them, this one too; asked for when the script is made. */
export const completion = (verbs: () => readonly Verb[]): Verb => ({
  name: 'completion',
  summary: 'print the completion script of a shell',
  description: 'In ~/.bashrc: source <(os-node completion bash); in ~/.zshrc: source <(os-node completion zsh)',
  examples: ['os-node completion bash > /etc/bash_completion.d/os-node', 'os-node completion zsh > os-node.zsh'],
  options: { shell: { type: 'string', value: 'bash|zsh', required: true, choices: SHELLS, help: 'bash or zsh' } },
  operands: ['shell'],
  where: 'either',
  tolerant: true,
  async run({ config }, options) {
    const shell = options.shell as Shell
    const keys = config.rows().flatMap(({ key }) => (key.includes('[]') ? [] : [key]))
    return { value: { shell, script: completionScript(shell, verbs(), PROGRAMS, keys) } }
  },
  text: ({ script }) => String(script).trimEnd(),
})
