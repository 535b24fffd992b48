// Commands of similar programs that do not exist here, with the command to use instead.
const ALTERNATIVES: Readonly<Record<string, string>> = {
  wizard:
    'there is no setup dialog: os-node run names the device and requests its id; os-node config-set changes a key',
  restart: 'sudo systemctl restart os-node, or Ctrl-C and os-node run; os-node reload applies a changed configuration',
  start: 'os-node run, or sudo systemctl start os-node',
  stop: 'Ctrl-C where it runs, or sudo systemctl stop os-node',
  'native-check': 'os-node deps doctor loads every native part, os-node deps repair replaces a damaged one',
  'rscore-check': 'os-node core says whether rscore is available, os-node doctor why not',
  test: 'os-node plugin-test',
  logs: 'journalctl -u os-node; os-node log export prints the facts',
  'run --once': 'os-node transmit sends once; os-node ensure-id gets an id',
  'help --full': 'os-node COMMAND --help has the options of one command',
  'doctor --self-heal': 'the doctor changes nothing; os-node repair-config repairs the configuration',
  'decode --data': 'os-node decode --hex HEX',
}
const SAME: Readonly<Record<string, string>> = {
  init: 'wizard',
  'native-build': 'native-check',
  'rscore-build': 'rscore-check',
}

/** What to use instead of a command or `command --option`; undefined if unknown. */
export const alternativeTo = (words: string): string | undefined => {
  const key = Object.hasOwn(SAME, words) ? SAME[words]! : words
  return Object.hasOwn(ALTERNATIVES, key) ? ALTERNATIVES[key] : undefined
}
