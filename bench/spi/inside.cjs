// Inside the rig: register reads of a CUSE chip by the built SpiBus and by a plain C loop, in one boot. One JSON line.
const { spawn, execFileSync } = require('node:child_process')
const { existsSync } = require('node:fs')
const { join } = require('node:path')

/** the best of some windows: other load on the machine does not count */
const WINDOWS = 5
const COUNT = 480
const [dir] = process.argv.slice(2)
const { SpiBus } = require(join(dir, 'spi.cjs'))
const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

async function main() {
  const chip = spawn(join(dir, 'chip'), ['spidev5.0', '/run/no-hold'], { stdio: 'ignore' })
  while (!existsSync('/dev/spidev5.0')) await pause(20)
  const spi = await SpiBus.open('/dev/spidev5.0')
  const [tx, rx] = [Uint8Array.of(0x42, 0), new Uint8Array(2)]
  const timed = async run => {
    await run(192)
    let best = Number.POSITIVE_INFINITY
    for (let k = 0; k < WINDOWS; k++) {
      const from = performance.now()
      await run(COUNT)
      best = Math.min(best, ((performance.now() - from) * 1000) / COUNT)
    }
    return best
  }
  const read = await timed(async count => {
    for (let k = 0; k < count; k++) {
      await spi.transfer(tx, rx, 1000)
      if (rx[1] !== 0x12) throw new Error('a wrong value')
    }
  })
  // a burst of one message: as a driver does that reads many registers
  const queued = await timed(async count => {
    for (let k = 0; k < count; k += 32) {
      const calls = []
      for (let n = 0; n < 32; n++) calls.push(spi.transfer(tx, rx, 1000))
      await Promise.all(calls)
    }
  })
  const plain = () => Number(execFileSync(join(dir, 'read'), ['/dev/spidev5.0', String(COUNT)], { encoding: 'utf8' }))
  const c = Math.min(...Array.from({ length: WINDOWS }, plain))
  console.log(JSON.stringify({ read, queued, c }))
  spi.close()
  chip.kill('SIGKILL')
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
