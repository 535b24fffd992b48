// A gateway with GPIO inputs and outputs: the levels of the pins are in its log, and its outputs are set by CLI and HTTP.
// Compared with the tools of libgpiod.
// Needs: gpiod
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { askGateway } from '../lib/ask'
import { cli, Machine, removeDir, sensorsOf, tempDir, until } from '../lib/gateway'
import { GpioSim } from '../lib/gpiosim'
import { inTheRig, tool } from '../lib/rig'

inTheRig(
  () => {
    // a chip labelled like that of a Raspberry Pi 4, so that its header can be named
    const sim = new GpioSim('pi', 'pinctrl-bcm2711', Array(58).fill(''))
    const dir = tempDir()
    const port = 8799
    const machine = new Machine(dir, 'run', {
      device_id: 'SHED',
      gateway: {
        board: 'rpi-4',
        sources: [
          {
            name: 'shed',
            type: 'gpio',
            interval_ms: 100,
            pins: [
              { header: 11, name: 'door', mode: 'edge', bias: 'pull_up', active_low: true },
              { pin: 'GPIO27', name: 'water', mode: 'counter', scale: 0.01, unit: 'm3' },
            ],
            outputs: [{ pin: 'GPIO22', name: 'pump' }],
          },
          { name: 'rtc', type: 'gpio', pins: [{ pin: 'GPIO2' }] },
        ],
        uplinks: [],
      },
      RESOURCES: { service_plugins: { web_user: { port } } },
    })
    let token = ''
    const ask = async (path: string, body?: object, given = token): Promise<[number, Record<string, unknown>]> => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`, {
        method: body ? 'POST' : 'GET',
        headers: { 'X-Admin-Token': given, 'Content-Type': 'application/json' },
        ...(body && { body: JSON.stringify(body) }),
      })
      return [response.status, (await response.json()) as Record<string, unknown>]
    }
    before(async () => {
      await machine.start([], port)
      token = await until('the token is printed', () => /admin token +(\S+)/.exec(machine.output)?.[1])
      // queried by HTTP: in the rig a start of the program takes seconds
      await until('the outputs are requested', async () => {
        const items = (await ask('/api/outputs'))[1].items as { value: number | null }[]
        return items.length > 0 && items.every(({ value }) => value !== null)
      })
    })
    after(async () => {
      await machine.stop('SIGKILL')
      removeDir(dir)
    })

    test('gpio lists the lines with their users, and the values of ours', async () => {
      const { lines, outputs } = await machine.ask('gpio')
      assert.equal(lines.length, 58)
      const door = lines[17]
      assert.deepEqual(
        [door.pin, door.header, door.direction, door.consumer, door.value, door.bias],
        ['GPIO17', 11, 'input', 'os-node door', 0, 'pull_up'],
      )
      assert.deepEqual(outputs, [{ source: 'shed', name: 'pump', value: 0 }])
      assert.match(tool('gpioinfo', sim.path.slice(5)), /line +17: +unnamed +"os-node door" +input +active-low \[used/)
      const text = (await askGateway(machine, 'gpio')).stdout
      assert.match(text, /gpiochip\d+ +17 +GPIO17 +11 +input, active low, pull-up +os-node door +0\n/)
      assert.match(text, /pinctrl-bcm2711/)
    })

    test('outputs are set by CLI and HTTP, and measured at the pin', async () => {
      assert.deepEqual(machine.json('gpio', 'set', 'pump', '1'), {
        source: 'shed',
        name: 'pump',
        value: 1,
        via: 'gateway',
      })
      assert.equal(sim.level(22), 1)
      assert.equal((await askGateway(machine, 'gpio', 'set', 'shed.pump', '0')).stdout, 'shed.pump is 0\n')
      assert.equal(sim.level(22), 0)
      assert.deepEqual(await ask('/api/outputs', { name: 'pump', value: 1 }), [
        200,
        { ok: true, source: 'shed', name: 'pump', value: 1 },
      ])
      assert.equal(sim.level(22), 1)
      assert.deepEqual((await ask('/api/outputs'))[1].items, [{ source: 'shed', name: 'pump', value: 1 }])
      for (const body of [{ name: 'pump', value: 2 }, { name: 'pump' }, { value: 1 }])
        assert.equal((await ask('/api/outputs', body))[0], 400)
      assert.deepEqual((await ask('/api/outputs', { name: 'pmup', value: 1 }))[0], 404)
      assert.equal((await ask('/api/outputs', { name: 'pump', value: 0 }, 'wrong'))[0], 401)
      assert.equal(sim.level(22), 1)
      const wrong = await askGateway(machine, 'gpio', 'set', 'pmup', '1')
      assert.equal(wrong.code, 1)
      assert.match(wrong.stderr, /no output is named pmup; did you mean pump\?/)
      assert.equal((await askGateway(machine, 'gpio', 'set', 'pump', '2')).code, 2)
      await until('it is reported', () => /output shed\.pump set to 1/.test(machine.output))
    })

    test('changes of the pins are logged', async () => {
      sim.drive(17, 0)
      sim.drive(27, 0)
      for (let k = 0; k < 6; k++) {
        sim.drive(27, k % 2 === 0 ? 1 : 0)
        await new Promise(resolve => setTimeout(resolve, 30))
      }
      const facts = await until('all is in the log', async () => {
        const logged = (await machine.facts()).map(fact => new Map(sensorsOf(fact).map(({ id, value }) => [id, value])))
        const newest = logged.filter(row => row.has('door')).at(-1)
        return newest?.get('door') === 1 && newest.get('water') === 0.03 && newest.get('pump') === 1 ? logged : null
      })
      assert.ok(facts.some(row => row.get('door') === 0))
    })

    test('source test shows levels and edges', async () => {
      const { readings } = await machine.ask('source test', { name: 'shed' })
      assert.deepEqual(
        readings.map(({ sensor_id, raw }: { sensor_id: string; raw: string }) => [sensor_id, raw]),
        [
          ['door', 'level 1, 1 edge'],
          ['water', '3 edges'],
          ['pump', 'output 1'],
        ],
      )
    })

    test('board shows the header with the users of its pins', async () => {
      const { board, by, pins, buses } = await machine.ask('board')
      assert.deepEqual([board, by, pins.length], ['rpi-4', 'configuration', 40])
      assert.deepEqual(pins[10].used_by, ['source shed: door'])
      const i2c = buses.find(({ name }: { name: string }) => name === 'i2c1')
      assert.equal(i2c.state, 'missing')
      assert.match(i2c.todo, /dtparam=i2c_arm=on; reboot/)
      const text = (await askGateway(machine, 'board')).stdout
      assert.match(text, /source shed: door +GPIO17 11 \| 12 GPIO18/)
      assert.match(text, /source shed: water +GPIO27 13 \| 14 GND/)
    })

    test('without a gateway the lines are listed too, and a set says that it needs one', async () => {
      await machine.stop()
      const alone = ['--config', machine.config, '--data-dir', machine.dataDir]
      const listed = JSON.parse(cli(['gpio', '--json', ...alone]).stdout)
      assert.deepEqual(
        [listed.via, listed.lines.length, listed.lines[17].used, listed.outputs],
        ['local', 58, false, []],
      )
      assert.match(cli(['gpio', 'set', 'pump', '1', ...alone]).stderr, /no gateway is running/)
      sim.remove()
      const none = cli(['gpio', ...alone])
      assert.deepEqual([none.code, /no GPIO chip/.test(none.stderr)], [1, true])
    })
  },
  { memory: 1024 },
)
