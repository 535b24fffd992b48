// Argument types of the library's public methods. Hot-path methods of the gateway are not included: TypeScript users
// cannot call them wrongly, and a check would cost time for every packet.
import { DisplayRegistry } from './display'
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

/** The classes that index.ts defines, and those it re-exports. */
export function checkLibrary(
  node: Class<NodeBase>,
  engine: Class<Engine>,
  fusion: Class<Fusion>,
  transporters: Class<object>,
  cores: Class<object>,
): void {
  checkMethods(node, 'Node', {
    ensureId: 'serverIp text, serverPort port, deviceMeta object?, timeout seconds?',
    ensureTime: 'serverIp text?, serverPort port?, timeout seconds?',
    transmit: 'sensors list, deviceId text?, deviceStatus text?, options object?',
    transmitFast: 'sensors list?, deviceId text?, deviceStatus text?, options object?',
    transmitBatch: 'batchItems list?, common object?',
    enqueue: 'reading item',
    dispatch: 'packet packet, medium text?',
    dispatchWithReply: 'packet bytes, serverIp text?, serverPort port?, timeout seconds?',
    receive: 'rawBytes bytes',
    receiveViaProtocol: 'rawBytes bytes',
    relay: 'packet bytes',
    readable: 'packet bytes',
  })
  checkMethods(engine, 'Engine', { compress: 'fact object, useMs boolean?', decompress: 'b62Str text' })
  checkMethods(fusion, 'Fusion', {
    relayed: 'packet bytes, received object, receiver object, key bytes?',
    sendStore: 'aid number',
    sendTemplate: 'aid number, signature text, count count',
    runEngine: 'rawInputStr packet, strategy text?',
    decompress: 'rawBytes bytes, key bytes?',
    relay: 'packet bytes, key bytes?',
  })
  checkMethods(cores, 'CoreManager', {
    setConfig: 'config object',
    setConfigPath: 'configPath text',
    setActiveCore: 'name text',
    loadCore: 'name text?',
    listSymbols: 'name text?',
    getSymbol: 'symbolName text, name text?',
    createNode: 'configPath text?, name text?',
  })
  checkMethods(transporters, 'TransporterManager', {
    enabled: 'info medium',
    getDriver: 'medium text',
    open: 'medium text, options object',
    refreshProtocol: 'medium text',
  })
  checkMethods(Standardizer, 'Standardizer', {
    standardize: 'deviceId text, deviceStatus text, sensors list, kwargs object?',
  })
  checkMethods(HandshakeManager, 'HandshakeManager', {
    getStrategy: 'srcAid number, hasTemplate boolean?',
    commitSuccess: 'srcAid number',
    noteLocalPlaintextSent: 'aid number, timestampRaw number',
    establishRemotePlaintext: 'aid number, timestampRaw number',
    confirmSecureDict: 'aid number, timestampRaw number?',
    markSecureChannel: 'aid number',
    hasSecureDict: 'aid number',
    shouldEncryptOutbound: 'aid number',
    getSessionKey: 'aid number',
    noteServerTime: 'ts number',
    checkTimestamp: 'aid sender, timestamp number?',
    classifyAndDispatch: 'rawBytes bytes',
    buildIdRequest: 'deviceMeta object?',
    buildIdPoolRequest: 'count count~, meta object?',
    buildAck: 'seq count~',
    buildNack: 'seq count~, reason text~',
    buildRefusal: 'refused refused',
    buildPong: 'seq count~',
    buildTimeResponse: 'seq count~, serverTime number~',
    buildIdAssign: 'seq count, assignedId id, serverTime number?',
    buildIdPoolResponse: 'seq count, pool list',
    buildSecureDictReady: 'assignedId id, timestampRaw number',
    buildSecureChannelAck: 'assignedId id',
    isOpen: 'raw bytes',
    requestIdViaTransport: 'sendFn function, recvFn function, deviceMeta object?, timeout seconds?',
    requestIdPoolViaTransport: 'sendFn function, recvFn function, count number?, meta object?, timeout seconds?',
    requestTimeViaTransport: 'sendFn function, recvFn function, timeout seconds?',
  })
  checkMethods(IdAllocator, 'IdAllocator', {
    allocateId: 'meta object?',
    allocatePool: 'count count, meta object?',
    offerId: 'meta object?, seconds seconds',
    offerPool: 'count count, meta object?, seconds seconds',
    confirm: 'ids list, pool boolean?',
    grant: 'ids list, goodForSeconds seconds',
    onFreed: 'listener function',
    touch: 'id number, addr text?',
    isOffered: 'id number',
    idOfKey: 'key text',
    addressOf: 'id number',
    releaseId: 'idVal number, immediate boolean?',
    releasePool: 'ids list, immediate boolean?',
    isAllocated: 'idVal number',
    getMeta: 'idVal number',
  })
  checkMethods(DisplayRegistry, 'DisplayRegistry', {
    unregister: 'pluginName text, sectionId text',
    get: 'pluginName text, sectionId text',
    resolve: 'name text',
    list: 'filter object~',
    metadata: 'filter object~',
    render: 'name text, format text~, options object~',
    collect: 'format text~, options object~',
  })
  checkMethods(ServiceManager, 'ServiceManager', {
    mount: 'name text, service object, config object?, mode text?',
    get: 'name text',
    load: 'name text',
    unmount: 'name text',
    state: 'name text',
    start: 'name text',
    stop: 'name text',
    status: 'name text',
    runCommand: 'name text, argv list, io object',
    fault: 'name text, what text',
    blame: 'name text',
    dispatchPluginCli: 'pluginName text, argv list',
  })
  checkMethods(TerminalUi, 'TerminalUi', {
    renderSection: 'name text',
    renderSections: 'sections list?',
    renderText: 'sections list?',
    runOnce: 'sections list?',
    runBios: 'interval seconds?, section text?',
    runInteractive: 'interval seconds?, sections list?',
  })
  checkMethods(DatabaseManager, 'DatabaseManager', {
    queryDevices: 'limit number?, offset number?',
    queryPackets: 'deviceId text?, status text?, since number?, until number?, limit number?, offset number?',
    queryPacket: 'uuid text',
    queryHistory: 'deviceId text, sensorId text, since number?, until number?, buckets number~',
    querySensors: 'sensorId text?, deviceId text?, since number?, until number?, limit number?, offset number?',
  })
}
