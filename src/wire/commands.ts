// The command bytes of the specification ("Command byte constants"), with its names.

export const COMMAND = {
  DATA_FULL: 0x3f,
  DATA_FULL_SEC: 0x40,
  DATA_DIFF: 0xaa,
  DATA_DIFF_SEC: 0xab,
  DATA_HEART: 0x7f,
  DATA_HEART_SEC: 0x80,
  ID_REQUEST: 0x01,
  ID_ASSIGN: 0x02,
  ID_POOL_REQ: 0x03,
  ID_POOL_RES: 0x04,
  HANDSHAKE_ACK: 0x05,
  HANDSHAKE_NACK: 0x06,
  PING: 0x09,
  PONG: 0x0a,
  TIME_REQUEST: 0x0b,
  TIME_RESPONSE: 0x0c,
  SECURE_DICT_READY: 0x0d,
  SECURE_CHANNEL_ACK: 0x0e,
} as const

export type CommandName = keyof typeof COMMAND

const NAMES = new Map<number, CommandName>(Object.entries(COMMAND).map(([name, byte]) => [byte, name as CommandName]))

/** The name of a command byte, undefined for an unknown one. */
export const commandName = (cmd: number): CommandName | undefined => NAMES.get(cmd)

/** True for the secure variant of a data command. */
export const isSecure = (cmd: number): boolean =>
  cmd === COMMAND.DATA_FULL_SEC || cmd === COMMAND.DATA_DIFF_SEC || cmd === COMMAND.DATA_HEART_SEC

/** The plain form of a data command; any other byte unchanged. */
export const baseCommand = (cmd: number): number => (isSecure(cmd) ? cmd - 1 : cmd)

/** The secure form of a data command; any other byte unchanged. */
export const secureCommand = (cmd: number): number =>
  cmd === COMMAND.DATA_FULL || cmd === COMMAND.DATA_DIFF || cmd === COMMAND.DATA_HEART ? cmd + 1 : cmd

/** True for the six data commands. */
export const isData = (cmd: number): boolean => {
  const base = baseCommand(cmd)
  return base === COMMAND.DATA_FULL || base === COMMAND.DATA_DIFF || base === COMMAND.DATA_HEART
}

/** Commands that answer a packet of the peer. */
export const ANSWERS: ReadonlySet<number> = new Set([
  COMMAND.ID_ASSIGN,
  COMMAND.ID_POOL_RES,
  COMMAND.HANDSHAKE_ACK,
  COMMAND.HANDSHAKE_NACK,
  COMMAND.PONG,
  COMMAND.TIME_RESPONSE,
  COMMAND.SECURE_DICT_READY,
  COMMAND.SECURE_CHANNEL_ACK,
])
