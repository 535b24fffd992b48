// Serial ports for the drivers that stand on one: UART, RS485, Modbus RTU, SLIP, line protocols.
export { lineMs, type SerialContext, SerialLine, serialLine } from './line'
export { nodeIdentity, type PortInfo, PortNames, type UsbIdentity } from './names'
export { characterMs, type SerialSettings, serialEntries, serialSettings } from './options'
export { OpenPort } from './port'
export { afterReading } from './silence'
