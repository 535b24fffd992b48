// completion: the script in a real bash and a real zsh, and the names this program goes by.
// Needs: zsh
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { commandLine, PROGRAMS, parseCommand, VERBS } from '../../../src/commands'
import { ConfigStore } from '../../../src/config'
import { Node, pluginTable } from '../../../src/index'
import { checkOptions, readArguments } from '../../../src/lib/arguments'
import { silentLogger } from '../../../src/lib/logger'
import { Plugins, ServiceManager } from '../../../src/services'
import { LocalWeb } from '../../../src/services/web-user/service'
import { fake } from './fake'

const root = mkdtempSync(join(tmpdir(), 'os-node-completion-'))
after(() => rmSync(root, { recursive: true, force: true }))
mkdirSync(join(root, 'data-folder'))
writeFileSync(join(root, 'data-file.json'), '[]')
writeFileSync(join(root, 'my readings.json'), '[]')
const config = ConfigStore.load({ cwd: root, env: {}, keep: false })
const manager = new ServiceManager(config, 'runtime', { logger: silentLogger })
const node = new Node(null, { config, idAllocator: null, serviceManager: manager })
const web = new LocalWeb({ config, start: () => assert.fail(), dashboard: () => assert.fail() })
const plugins = new Plugins({ manager, node, builtins: pluginTable, version: '9.9.9', web })
after(() => plugins.close().then(() => node.close()))

async function script(shell: string): Promise<string> {
  const { verb, options } = parseCommand(VERBS, ['completion', shell])
  const { value } = await verb.run(fake(config, { plugins: async () => plugins }).context, options)
  const file = join(root, `completion.${shell}`)
  assert.ok(value && 'script' in value)
  writeFileSync(file, String(value.script))
  return file
}

const quote = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`

/** What a shell offers after these words; the last word is the one being typed. */
const SHELLS: Record<string, (file: string, words: readonly string[]) => string[]> = {
  bash: (file, words) =>
    execFileSync(
      'bash',
      [
        '--norc',
        '-c',
        `source ${file}; COMP_WORDS=(${words.map(quote).join(' ')}); COMP_CWORD=${words.length - 1}; ` +
          // finds the function as bash itself does
          `$(complete -p os-node | sed "s/.*-F \\([^ ]*\\).*/\\1/"); printf "%s\\n" "\${COMPREPLY[@]}"`,
      ].map(String),
      { cwd: root, encoding: 'utf8' },
    )
      .split('\n')
      .filter(Boolean),
  // bashcompinit runs the function in sh emulation; its compgen completes files that begin with PREFIX, and the shell itself
  // selects later what matches the word
  zsh: (file, words) =>
    execFileSync(
      'zsh',
      [
        '-f',
        '-c',
        `source ${file}; emulate sh; setopt kshglob noshglob braceexpand; COMP_WORDS=(${words.map(quote).join(' ')}); ` +
          `PREFIX=${quote(words.at(-1)!)}; COMP_CWORD=${words.length - 1}; _os_node; printf "%s\\n" "\${COMPREPLY[@]}"`,
      ],
      { cwd: root, encoding: 'utf8' },
    )
      .split('\n')
      .filter(offer => offer !== '' && offer.startsWith(words.at(-1)!)),
}

for (const shell of Object.keys(SHELLS))
  test(`${shell}: commands, options, choices, media, keys and files are completed`, async () => {
    const file = await script(shell)
    const offers = (...words: string[]): string[] => SHELLS[shell]!(file, words).sort()
    assert.deepEqual(offers('os-node', 'trans'), ['transmit', 'transport-status', 'transporter-toggle'])
    assert.deepEqual(offers('os-node', 'diag'), ['diagnose'])
    assert.deepEqual(offers('os-node', 'log', ''), ['export', 'verify'])
    assert.deepEqual(offers('os-node', 'log', 'export', '--f'), ['--format', '--from'])
    assert.deepEqual(offers('os-node', 'gpio', 's'), ['set'])
    assert.deepEqual(offers('os-node', 'inject', '--module', ''), ['compress', 'full', 'fuse', 'standardize'])
    assert.deepEqual(offers('os-node', 'transmit', '--medium', 'U'), ['UART', 'UDP', 'UIP'])
    assert.deepEqual(offers('os-node', 'config-get', '--key', 'engine_settings.pre'), ['engine_settings.precision'])
    assert.deepEqual(offers('os-node', 'status', '--config', 'data-f'), ['data-file.json', 'data-folder'])
    assert.deepEqual(offers('os-node', 'status', '--data-dir', 'data-f'), ['data-folder'])
    assert.deepEqual(offers('os-node', 'transmit', '--sensors-file', 'my'), ['my readings.json'])
    assert.deepEqual(offers('os-node', 'transmit', '--value', ''), [])
    assert.deepEqual(offers('os-node', 'completion', 'z'), ['zsh'])
    assert.deepEqual(offers('os-node', 'help', 'snap'), ['snapshot'])
    assert.deepEqual(offers('/usr/bin/os-transmit', '--sensors-f'), ['--sensors-file'])
    assert.deepEqual(offers('os-node', 'nothing', ''), [])
    assert.deepEqual(offers('os-node', 'tui', 'r'), ['render'])
    assert.deepEqual(offers('os-node', 'tui', 'render', 'r'), [])
    // commands of plugins, in every spelling
    assert.deepEqual(offers('os-node', 'port-forwarder', 'add'), ['add-rule'])
    assert.deepEqual(offers('os-node', 'port_forwarder', '--cmd', 'rem'), ['remove-rule'])
    for (const words of [
      ['web-user', 'add'],
      ['web-user', '--cmd', 'add', '--'],
      ['web-user', '--cmd', '=', 'add', '--'],
      ['plugin-cmd', 'web_user', 'add'],
      ['plugin-cmd', 'web-user', '--cmd', 'add', '--'],
      ['plugin-cmd', '--plugin', 'web_user', '--cmd', 'add', '--'],
    ]) {
      assert.deepEqual(offers('os-node', ...words, '--r'), ['--role'], words.join(' '))
      assert.deepEqual(offers('os-node', ...words, '--role', 'o'), ['operator'], words.join(' '))
    }
    assert.deepEqual(offers('os-web', 'sta'), ['start', 'status'])
    assert.deepEqual(offers('os-web', '--cmd', 'start', '--', '--b'), ['--block'])
    assert.deepEqual(offers('os-node', 'plugin-cmd', 'test'), ['test_plugin'])
    assert.deepEqual(offers('os-node', 'plugin-cmd', 'test_plugin', 'str'), ['stress'])
    assert.deepEqual(offers('os-node', 'plugin-load', '--name', 'env'), ['env_guard'])
    assert.deepEqual(offers('os-node', 'deps', 'install', '--from', 'data-file'), ['data-file.json'])
  })

test('completion offers every option of every command', async () => {
  const file = await script('bash')
  const runs = VERBS.map(({ name }) => ['os-node', ...name.split(' '), '--'])
  const text = runs
    .map(words => `COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}; _os_node; echo "\${COMPREPLY[@]}"`)
    .join('\n')
  const lines = execFileSync('bash', ['--norc', '-c', `source ${file}\n${text}`], { encoding: 'utf8' }).split('\n')
  for (const [k, verb] of VERBS.entries())
    assert.deepEqual(
      lines[k]!.split(' ').sort(),
      [...Object.keys(verb.options ?? {}), 'config', 'data-dir', 'json', 'help'].map(name => `--${name}`).sort(),
      verb.name,
    )
})

test('an unknown shell is wrong usage', () => {
  assert.throws(() => parseCommand(VERBS, ['completion', 'fish']), { code: 'USAGE' })
  assert.throws(() => parseCommand(VERBS, ['completion']), { code: 'USAGE' })
})

test('completion knows each program of package.json as its command', () => {
  const { bin } = JSON.parse(readFileSync(join(process.env.OS_NODE_TEST_ROOT ?? '.', 'package.json'), 'utf8'))
  assert.deepEqual(Object.keys(bin), Object.keys(PROGRAMS))
  for (const [script, line] of [
    ['/x/node_modules/.bin/os-node', 'a b'],
    ['/x/dist/os-node.js', 'a b'],
    ['/usr/bin/os-web', 'web-user a b'],
    ['/usr/bin/os-transmit', 'transmit a b'],
    ['/usr/bin/os-tui', 'tui a b'],
    ['/usr/bin/os-snapshot', 'snapshot a b'],
    ['/usr/bin/other', 'a b'],
  ] as const)
    assert.deepEqual(commandLine(script, ['a', 'b']), line.split(' '), script)
  assert.deepEqual(commandLine('/usr/bin/os-web', ['--help']), ['help', 'web-user'])
  assert.deepEqual(commandLine('/usr/bin/os-web', ['--version']), ['--version'])
  assert.deepEqual(commandLine(undefined, ['x']), ['x'])
})

test("the example of each plugin command passes the command's own schema", async () => {
  await script('bash')
  const seen: string[] = []
  for (const [plugin, commands] of Object.entries(manager.collectCliCommands()))
    for (const [command, { example = '', options = {}, operands = [] }] of Object.entries(commands)) {
      const form = { name: `${plugin} ${command}`, options, operands }
      checkOptions(form, readArguments(form, example.split(' ').filter(Boolean)))
      seen.push(form.name)
      // it needs more than its name, or is only useful with more
      if (operands.length > 0) assert.notEqual(example, '', form.name)
    }
  assert.ok(seen.length > 30)
})
