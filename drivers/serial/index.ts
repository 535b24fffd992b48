// Serial ports for the drivers that use one: UART, RS485, Modbus RTU, SLIP, line protocols.
export { lineMs, type SerialContext, SerialLine, serialLine } from './line'
export { OpenPort } from './port'
export { characterMs, serialEntries, serialSettings } from './serial-options'
export { afterReading } from './silence'
