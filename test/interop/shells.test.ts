// Completion as a user sees it: a real interactive bash (readline) and zsh (line editor), each on its own terminal, with the script
// that the built program prints. Lines are typed with Tab in them and run; the resulting arguments are compared. And the effect of
// Ctrl-C, which is sent to every process of the terminal.
// Needs: zsh
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { freePort, removeDir, script, tempDir, until } from '../lib/gateway'
import { Tty } from '../lib/tty'

const dir = tempDir()
const open: Tty[] = []
after(() => {
  for (const tty of open) tty.close()
  removeDir(dir)
})
writeFileSync(join(dir, 'my readings.json'), '[]')

const SHELLS: Record<string, string[]> = {
  bash: ['bash', '--norc', '--noprofile', '-i'],
  zsh: ['zsh', '-f', '-i'],
}

/** A shell with the completion loaded; the programs only print their arguments. */
async function shell(name: string): Promise<(keys: string) => Promise<string>> {
  const rc = join(dir, `rc.${name}`)
  const programs = ['os-node', 'os-web', 'os-transmit']
  writeFileSync(
    rc,
    `${execFileSync(process.execPath, [script, 'completion', name], { cwd: dir, encoding: 'utf8' })}
${programs.map(program => `${program}() { printf 'ran'; printf '<%s>' ${program} "$@"; printf '!\\n'; }`).join('\n')}
printf 'sour'; printf 'ced\\n'
`,
  )
  const env = { TERM: 'dumb', HOME: dir, ZDOTDIR: dir, INPUTRC: '/dev/null', HISTFILE: '' }
  const tty = new Tty(SHELLS[name]!, { columns: 500, cwd: dir, env })
  open.push(tty)
  tty.type(`source ${rc}\n`)
  await until(`${name} has read the script`, () => tty.output.includes('sourced'))
  return async keys => {
    const from = tty.output.length
    tty.type(`${keys}\n`)
    const text = () => /ran((?:<[^>]*>)+)!/.exec(tty.output.slice(from))?.[1]
    return until(`${name} runs ${JSON.stringify(keys)}`, text).catch(error => {
      throw new Error(`${error.message}: ${JSON.stringify(tty.output.slice(from))}`)
    })
  }
}

for (const name of Object.keys(SHELLS))
  test(`${name}: Tab completes commands, commands of plugins, options, values and files of a line being typed`, async () => {
    const type = await shell(name)
    for (const [keys, run] of [
      ['os-node snap\t', '<os-node><snapshot>'],
      ['os-node diagn\t--js\t', '<os-node><diagnose><--json>'],
      ['os-node transm\t--med\tLo\t', '<os-node><transmit><--medium><LoRa>'],
      ['os-node transmit --sensors-f\tmy\t', '<os-node><transmit><--sensors-file><my readings.json>'],
      ['os-node config-get --key engine_settings.prec\t', '<os-node><config-get><--key><engine_settings.precision>'],
      ['os-node log ver\t', '<os-node><log><verify>'],
      ['os-node port-f\tadd\t--dir\tbo\t', '<os-node><port-forwarder><add-rule><--direction><both>'],
      ['os-node web-user --cmd sta\tr\t-- --blo\t', '<os-node><web-user><--cmd><start><--><--block>'],
      ['os-node plugin-cmd env\tres\ts\t', '<os-node><plugin-cmd><env_guard><resource-show>'],
      ['os-web upd\tbob --rol\tadm\t', '<os-web><update><bob><--role><admin>'],
      ['os-transmit --uni\tPa', '<os-transmit><--unit><Pa>'],
      ...(name === 'bash'
        ? ([['os-node transmit --medium=LoR\t', '<os-node><transmit><--medium=LoRa>']] as const)
        : []),
      ['os-node inject --module comp\t', '<os-node><inject><--module><compress>'],
    ] as const)
      assert.equal(await type(keys), run, JSON.stringify(keys))
  })

test('Ctrl-C on the terminal stops a gateway with its local upstream cleanly', async () => {
  const place = join(dir, 'gateway')
  mkdirSync(place)
  writeFileSync(join(place, 'Config.json'), '{"device_id":"gw"}')
  const command = [process.execPath, script, 'run', '--port', String(await freePort())]
  const tty = new Tty(command, { columns: 500, cwd: place, env: { TERM: 'dumb' } })
  open.push(tty)
  await until('the upstream gave an id', () => tty.output.includes('the upstream assigned id'))
  tty.type('\x03')
  assert.deepEqual(await tty.end(), { code: 0, signal: 0 })
  const said = tty.output.slice(tty.output.lastIndexOf('^C'))
  assert.equal(said.match(/stopping: draining and committing/g)?.length, 2, said)
  assert.doesNotMatch(said, /ERROR|WARN|again/)
})
