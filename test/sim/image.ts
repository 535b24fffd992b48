// The program of the simulator: the rooms of a gateway as one program text. Each simulated process start runs that text
// anew, so that it has its own modules, clock, timers, disk, sockets and random numbers.
export { uartOptions } from '../../drivers/uart/uart-options'
export { ConfigStore } from '../../src/config'
export { GatewayCores } from '../../src/cores'
export { Gateway } from '../../src/gateway/gateway'
export { createLogger } from '../../src/lib/logger'
export { Registry } from '../../src/links/registry'
export { mediaFragments } from '../../src/media/fragments'
export { resolve } from '../../src/units/canonical'
export { wireUnits } from '../../src/units/wire'

/** Loaded where a machine uses them. */
export const media = {
  UDP: async () => (await import('../../src/media/udp')).udpDriver,
  TCP: async () => (await import('../../src/media/tcp')).tcpDriver,
  MQTT: async () => (await import('../../src/media/mqtt')).mqttDriver,
  UART: async () => (await import('../../drivers/uart')).uartDriver,
}
