// completion: the script by which a shell completes commands, plugin commands, options and their values.
import { ensureAndMountPlugin, normalizePluginName } from '../../services'
import { type CompletedPlugin, completionScript, SHELLS, type Shell } from '../completion'
import type { CommandContext } from '../context'
import { PROGRAMS } from '../program-names'
import type { AnyVerb, Verb } from '../verb'

/** The enabled built-in plugins. They are created but not loaded: only their commands are needed. */
async function pluginsOf(context: CommandContext, verbs: readonly AnyVerb[]): Promise<CompletedPlugin[]> {
  const plugins = await context.plugins()
  const { manager } = plugins
  const names = plugins.list().flatMap(({ name, builtin, enabled }) => (builtin && enabled ? [name] : []))
  for (const name of names) await ensureAndMountPlugin({ serviceManager: manager }, name)
  const commands = manager.collectCliCommands()
  // a verb that parses its own line belongs to a plugin
  const owned = new Map(verbs.flatMap(verb => (verb.read ? [[normalizePluginName(verb.name), verb] as const] : [])))
  return names.map(name => {
    const verb = owned.get(name)
    return { name, ...(verb && { verb }), commands: commands[name] ?? {} }
  })
}

/** `verbs`: all of them, including this one; evaluated when the script is made. */
export const completion = (verbs: () => readonly AnyVerb[]): Verb<Record<string, unknown>, { shell: Shell }> => ({
  name: 'completion',
  summary: 'print the completion script of a shell',
  description: 'In ~/.bashrc: source <(os-node completion bash); in ~/.zshrc: source <(os-node completion zsh)',
  examples: ['os-node completion bash > /etc/bash_completion.d/os-node', 'os-node completion zsh > os-node.zsh'],
  options: { shell: { type: 'string', value: 'bash|zsh', required: true, choices: SHELLS, help: 'bash or zsh' } },
  operands: ['shell'],
  where: 'local',
  tolerant: true,
  async run(context, { shell }) {
    const keys = context.config.rows().flatMap(({ key }) => (key.includes('[]') ? [] : [key]))
    const plugins = await pluginsOf(context, verbs())
    return { value: { shell, script: completionScript(shell, { verbs: verbs(), plugins, programs: PROGRAMS, keys }) } }
  },
  text: ({ script }) => String(script).trimEnd(),
})
