// The units of dialect `attribute`, as Appendix B names them.
const letters = (head: string): string[] => Array.from('ABCDEFGHIJKLMNOPQRSTUVWXYZ', c => head + c)

export const ATTRIBUTE_KEYS: readonly string[] = [
  ...letters('cmd'),
  ...letters('mode'),
  ...(
    'mol eq osm count cmd pow.on pow.off set.val get.val get.st rst mv.up mv.dn mv.lt mv.rt mv.fw mv.bk stp mv.to ' +
    'mv.by stp.e rot.cw rot.cc A Bi Gau V Ohm F W hp J cal Hz rpm deg/s rad/s % bit By Bd m in ft nmi AU ang cd cp hk ' +
    'g lb oz t u Pa bar psi atm mm[Hg] K Cel degF degRe s min h d wk ann'
  ).split(' '),
]
