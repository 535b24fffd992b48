// The registers and bits of the SX1276/77/78/79 in LoRa mode (data sheet rev. 7, chapter 6). Names follow the data sheet.

export const REG = {
  FIFO: 0x00,
  OP_MODE: 0x01,
  FRF_MSB: 0x06,
  PA_CONFIG: 0x09,
  PA_RAMP: 0x0a,
  OCP: 0x0b,
  LNA: 0x0c,
  FIFO_ADDR_PTR: 0x0d,
  FIFO_TX_BASE: 0x0e,
  FIFO_RX_BASE: 0x0f,
  FIFO_RX_CURRENT: 0x10,
  IRQ_FLAGS_MASK: 0x11,
  IRQ_FLAGS: 0x12,
  RX_NB_BYTES: 0x13,
  RX_PACKET_CNT_MSB: 0x16,
  RX_PACKET_CNT_LSB: 0x17,
  MODEM_STAT: 0x18,
  PKT_SNR: 0x19,
  PKT_RSSI: 0x1a,
  RSSI: 0x1b,
  HOP_CHANNEL: 0x1c,
  MODEM_CONFIG_1: 0x1d,
  MODEM_CONFIG_2: 0x1e,
  SYMB_TIMEOUT: 0x1f,
  PREAMBLE_MSB: 0x20,
  PREAMBLE_LSB: 0x21,
  PAYLOAD_LENGTH: 0x22,
  MAX_PAYLOAD_LENGTH: 0x23,
  HOP_PERIOD: 0x24,
  MODEM_CONFIG_3: 0x26,
  FEI_MSB: 0x28,
  IF_FREQ_1: 0x2f,
  IF_FREQ_2: 0x30,
  DETECT_OPTIMIZE: 0x31,
  INVERT_IQ: 0x33,
  HIGH_BW_OPTIMIZE_1: 0x36,
  DETECTION_THRESHOLD: 0x37,
  SYNC_WORD: 0x39,
  HIGH_BW_OPTIMIZE_2: 0x3a,
  INVERT_IQ_2: 0x3b,
  /** of the FSK modem, which does the image calibration */
  IMAGE_CAL: 0x3b,
  DIO_MAPPING_1: 0x40,
  VERSION: 0x42,
  PA_DAC: 0x4d,
} as const

/** VERSION of every chip of the family */
export const CHIP_VERSION = 0x12

/** first byte of a transfer that writes */
export const WRITE = 0x80

export const MODE = { SLEEP: 0, STANDBY: 1, TX: 3, RX_CONTINUOUS: 5, CAD: 7 } as const
/** IMAGE_CAL: start bit, other bits as after a reset; the bit that is set while it runs */
export const IMAGE_CAL_START = 0x42
export const IMAGE_CAL_RUNNING = 0x20

export const LONG_RANGE = 0x80
/** registers of the low frequency port, below 779 MHz */
export const LOW_FREQUENCY = 0x08

export const IRQ = {
  RX_TIMEOUT: 0x80,
  RX_DONE: 0x40,
  PAYLOAD_CRC_ERROR: 0x20,
  VALID_HEADER: 0x10,
  TX_DONE: 0x08,
  CAD_DONE: 0x04,
  FHSS_CHANGE: 0x02,
  CAD_DETECTED: 0x01,
} as const

/** MODEM_STAT: header received, or a preamble is being received */
export const STAT_RECEIVING = 0x08 | 0x02 | 0x01

/** DIO_MAPPING_1: the function of DIO0; DIO1 is then CadDetected (01 would be hopping, 00 the time-out of single receive) */
export const DIO0 = { RX_DONE: 0x00, TX_DONE: 0x40, CAD_DONE: 0x80 } as const
