// plugin-test: runs the suites of the plugin test_plugin in this process, even while a gateway runs: they use a
// temporary folder and the loopback. Exit code 1 if anything failed.
import { STRESS_OPTIONS } from '../../services/test-plugin/stress/options'
import type { OptionValues, Verb } from '../verb'
import { ioOf } from './plugins'

const SUITES = ['all', 'component', 'stress', 'compare', 'full_load', 'integration', 'audit'] as const
const VERBOSE: readonly string[] = ['all', 'component', 'integration', 'audit']
const STRESSFUL: readonly string[] = ['all', 'stress', 'full_load']

/** The words of the plugin's own command line; options that a suite does not have are left out. */
function wordsOf(suite: string, options: OptionValues): string[] {
  const names = [
    ...(STRESSFUL.includes(suite) ? Object.keys(STRESS_OPTIONS) : []),
    ...(VERBOSE.includes(suite) ? ['verbosity'] : []),
  ]
  return names.flatMap(name => {
    const value = options[name]
    if (value === undefined || value === false) return []
    return value === true ? [`--${name}`] : [`--${name}`, String(value)]
  })
}

export const pluginTest: Verb = {
  name: 'plugin-test',
  aliases: ['os-plugin-test'],
  summary: 'run the self-test, integration, stress or audit suites',
  description: `Suites: ${SUITES.join(', ')}. Options of a stress run apply to stress, all and full_load.`,
  examples: [
    'os-node plugin-test --suite component',
    'os-node plugin-test --suite stress --total 100000 --processes 2 --chain-mode e2e_inproc',
    'os-node plugin-test --suite audit --json',
  ],
  options: {
    suite: { type: 'string', value: 'SUITE', choices: SUITES, default: 'all', help: 'suite to run' },
    verbosity: { type: 'integer', value: 'N', min: 0, max: 2, help: '0 counts, 1 failures (default), 2 all' },
    ...STRESS_OPTIONS,
  },
  operands: ['suite'],
  where: 'local',
  async run(context, options) {
    const plugins = await context.plugins()
    const suite = String(options.suite)
    return plugins.command('test_plugin', [suite, ...wordsOf(suite, options)], ioOf(context))
  },
}
