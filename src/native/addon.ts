// The C addon's exports, by parts: every function returns a number, negative is minus errno. Types only.

/** An open descriptor from C; opaque to JavaScript. */
export type Descriptor = { readonly descriptor: unique symbol }

/** C exports for sockets: a negative number is minus errno. */
export interface SocketAddon {
  openUdp(family: 4 | 6, receiveBuffer: number, sendBuffer: number): Descriptor | number
  bindUdp(socket: Descriptor, address: string, port: number): number
  connectUdp(socket: Descriptor, address: string, port: number): number
  socketState(socket: Descriptor, out: Uint32Array): number
  receive(socket: Descriptor, slab: Uint8Array, lengths: Uint32Array, peers: Uint8Array | null): number
  send(
    socket: Descriptor,
    slab: Uint8Array,
    offsets: Uint32Array,
    lengths: Uint32Array,
    count: number,
    peers: Uint8Array | null,
  ): number
  sendOne(socket: Descriptor, packet: Uint8Array, peer: Uint8Array | null): number
  watch(socket: Descriptor, events: number, wake: ((events: number) => void) | null): number
  close(socket: Descriptor): number
  addressText(peers: Uint8Array, slot: number): string
}

/** A bus from C; opaque to JavaScript. */
export type BusHandle = { readonly bus: unique symbol }

/** C exports for buses: a negative number is minus errno; functions that start a job return its number. */
export interface BusAddon {
  busStart(): BusHandle | number
  busEvents(bus: BusHandle): Descriptor | number
  busDone(bus: BusHandle): number
  busFile(bus: BusHandle, job: number): Descriptor | number
  busResult(bus: BusHandle, job: number, answer: Uint8Array | null): number
  busCancel(bus: BusHandle, job: number): number
  busClose(bus: BusHandle): number
  watch(descriptor: Descriptor, events: number, wake: ((events: number) => void) | null): number
  unref(descriptor: Descriptor): number
  descriptorNumber(descriptor: Descriptor): number
  close(descriptor: Descriptor): number
  spiOpen(bus: BusHandle, path: string, mode: number, speedHz: number, bitsPerWord: number): number
  spiTransfer(bus: BusHandle, segments: Uint32Array, bytes: Uint8Array, length: number): number
  i2cOpen(bus: BusHandle, path: string): number
  i2cTransfer(bus: BusHandle, address: number, write: Uint8Array | null, readLength: number): number
  ttyTake(
    bus: BusHandle,
    path: string,
    baudrate: number,
    dataBits: number,
    parity: number,
    stopBits: number,
    flow: number,
  ): number
  ttyLines(bus: BusHandle, on: number, off: number): number
  ttyClose(bus: BusHandle): number
  rs485Set(bus: BusHandle, flags: number, delayBefore: number, delayAfter: number): number
  rs485Get(bus: BusHandle): number
  fileRead(bus: BusHandle, path: string, size: number): number
  fileWrite(bus: BusHandle, path: string, text: string): number
  fileSpace(bus: BusHandle, path: string): number
}

/** C exports for CAN: a negative number is minus errno. */
export interface CanAddon extends SocketAddon {
  openCanRaw(
    name: string,
    flags: number,
    errors: number,
    receiveBuffer: number,
    filters: Uint32Array | null,
  ): Descriptor | number
  receiveCan(socket: Descriptor, frames: Uint8Array, times: Float64Array, hardware: Float64Array | null): number
  sendCan(socket: Descriptor, frames: Uint8Array, first: number, count: number): number
  openIsotp(name: string, settings: Uint32Array, receiveBuffer: number): Descriptor | number
  socketError(socket: Descriptor): number
  canLink(name: string, out: Uint32Array): number
  openLinkChanges(): Descriptor | number
}

/** C exports for the programs of drivers/native/helper: a negative number is minus errno. */
export interface HelperAddon extends Pick<SocketAddon, 'sendOne' | 'watch' | 'close'> {
  connectUnixPackets(path: string): Descriptor | number
  passDescriptor(connection: Descriptor, byte: number, descriptor: Descriptor): number
  takeDescriptor(connection: Descriptor): Descriptor | number
}

/** C exports for GPIO: a negative number is minus errno; with a bus, the number of a job of its thread. */
export interface GpioAddon extends HelperAddon {
  openGpioChip(path: string): Descriptor | number
  gpioChipInfo(chip: Descriptor, out: Uint8Array): number
  gpioLineInfo(chip: Descriptor, line: number, out: Uint8Array): number
  gpioRequest(
    bus: BusHandle,
    path: string,
    lines: Uint32Array,
    flags: number,
    debounceUs: number,
    values: Uint8Array,
    events: number,
    consumer: string,
  ): number
  gpioRead(bus: BusHandle, lines: Descriptor, count: number): number
  gpioSet(bus: BusHandle, lines: Descriptor, index: number, value: number): number
  gpioRelease(bus: BusHandle, lines: Descriptor): number
  readGpioEvents(lines: Descriptor, out: Uint32Array): number
}

/** C exports for Bluetooth adapters: a negative number is minus errno. */
export interface HciAddon extends SocketAddon, HelperAddon {
  openHci(device: number, channel: number): Descriptor | number
  hciInfo(socket: Descriptor, device: number, address: Uint8Array): number
  hciFilter(socket: Descriptor, filter: Uint8Array): number
  holdLe(adapter: Uint8Array, peer: Uint8Array, peerType: number): Descriptor | number
}

/** All C exports: every function returns a number, negative is minus errno. */
export interface Addon extends SocketAddon, BusAddon, CanAddon, GpioAddon, HciAddon {
  sendUnixDatagram(path: string, bytes: Uint8Array): number
  ntpState(out: Float64Array): number
  limitMalloc(arenas: number, keptBytes: number): number
  trimMalloc(): number
}
