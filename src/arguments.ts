// What the arguments of the library's public methods are. The methods of the gateway's hot paths are not here: who writes by
// the types cannot call them wrongly, and a check would cost every packet.
import { checkMethods } from './lib/checked'
import type { NodeBase } from './node/node'
import type { Engine } from './pipeline/compress'
import type { Fusion } from './pipeline/fuse'
import { Standardizer } from './pipeline/standardize'
import { HandshakeManager } from './protocol/handshake/manager'
import { IdAllocator } from './protocol/ids/allocator'
import { ServiceManager } from './services'
import { DatabaseManager } from './storage'
import { TerminalUi } from './tui'

type Class<T> = { prototype: T }

/** The classes that index.ts makes, and those it passes on. */
export function checkLibrary(
  node: Class<NodeBase>,
  engine: Class<Engine>,
  fusion: Class<Fusion>,
  transporters: Class<object>,
): void {
  checkMethods(node, 'Node', {
    ensureId: ['serverIp text', 'serverPort port', 'deviceMeta object?', 'timeout seconds?'],
    ensureTime: ['serverIp text?', 'serverPort port?', 'timeout seconds?'],
    transmit: ['sensors list', 'deviceId text?', 'deviceStatus text?', 'options object?'],
    transmitFast: ['sensors list?', 'deviceId text?', 'deviceStatus text?', 'options object?'],
    transmitBatch: ['batchItems list?', 'common object?'],
    dispatch: ['packet packet', 'medium text?'],
    dispatchWithReply: ['packet bytes', 'serverIp text?', 'serverPort port?', 'timeout seconds?'],
    receive: ['rawBytes bytes'],
    receiveViaProtocol: ['rawBytes bytes'],
    relay: ['packet bytes'],
    readable: ['packet bytes'],
  })
  checkMethods(engine, 'Engine', { compress: ['fact object', 'useMs boolean?'], decompress: ['b62Str text'] })
  checkMethods(fusion, 'Fusion', {
    runEngine: ['rawInputStr packet', 'strategy text?'],
    decompress: ['rawBytes bytes', 'key bytes?'],
    relay: ['packet bytes', 'key bytes?'],
  })
  checkMethods(transporters, 'TransporterManager', { getDriver: ['medium text'], refreshProtocol: ['medium text'] })
  checkMethods(Standardizer, 'Standardizer', {
    standardize: ['deviceId text', 'deviceStatus text', 'sensors list', 'kwargs object?'],
  })
  checkMethods(HandshakeManager, 'HandshakeManager', {
    getStrategy: ['srcAid number', 'hasTemplate boolean?'],
    commitSuccess: ['srcAid number'],
    noteLocalPlaintextSent: ['aid number', 'timestampRaw number'],
    establishRemotePlaintext: ['aid number', 'timestampRaw number'],
    confirmSecureDict: ['aid number', 'timestampRaw number?'],
    markSecureChannel: ['aid number'],
    hasSecureDict: ['aid number'],
    shouldEncryptOutbound: ['aid number'],
    getSessionKey: ['aid number'],
    noteServerTime: ['ts number'],
    classifyAndDispatch: ['rawBytes bytes'],
    requestIdViaTransport: ['sendFn function', 'recvFn function', 'deviceMeta object?', 'timeout seconds?'],
    requestIdPoolViaTransport: [
      'sendFn function',
      'recvFn function',
      'count number?',
      'meta object?',
      'timeout seconds?',
    ],
    requestTimeViaTransport: ['sendFn function', 'recvFn function', 'timeout seconds?'],
  })
  checkMethods(IdAllocator, 'IdAllocator', {
    allocateId: ['meta object?'],
    allocatePool: ['count number', 'meta object?'],
    releaseId: ['idVal number', 'immediate boolean?'],
    releasePool: ['ids list', 'immediate boolean?'],
    isAllocated: ['idVal number'],
    getMeta: ['idVal number'],
  })
  checkMethods(ServiceManager, 'ServiceManager', {
    mount: ['name text', 'service object', 'config object?', 'mode text?'],
    get: ['name text'],
    load: ['name text'],
    dispatchPluginCli: ['pluginName text', 'argv list'],
  })
  checkMethods(TerminalUi, 'TerminalUi', {
    renderSection: ['name text'],
    renderSections: ['sections list?'],
    renderText: ['sections list?'],
    runOnce: ['sections list?'],
    runBios: ['interval seconds?', 'section text?'],
    runInteractive: ['interval seconds?', 'sections list?'],
  })
  checkMethods(DatabaseManager, 'DatabaseManager', {
    queryDevices: ['limit number?', 'offset number?'],
    queryPackets: [
      'deviceId text?',
      'status text?',
      'since number?',
      'until number?',
      'limit number?',
      'offset number?',
    ],
    queryPacket: ['uuid text'],
    querySensors: [
      'sensorId text?',
      'deviceId text?',
      'since number?',
      'until number?',
      'limit number?',
      'offset number?',
    ],
  })
}
