// What the simulator runs: the rooms of a gateway as one program text. Each simulated process start runs that text anew, so
// that it has its own modules, clock, timers, disk, sockets and random numbers.
export { ConfigStore } from '../../src/config'
export { Gateway } from '../../src/gateway/gateway'
export { createLogger } from '../../src/lib/logger'
export { Registry } from '../../src/links/registry'
export { udpDriver } from '../../src/media/udp'
export { resolve } from '../../src/units/canonical'
export { wireUnits } from '../../src/units/wire'
