// A configuration with a secret in every place where users put one. Each secret is a unique text.

/** Every secret in planted(). */
export const PLANTED = Array.from({ length: 26 }, (_, k) => `hush${String(k).padStart(2, '0')}`)

/** A valid configuration, as a tree. */
export function planted(): Record<string, unknown> {
  const left = [...PLANTED]
  const next = (): string => left.shift()!
  const tree = {
    gateway: {
      uplinks: [{ name: 'up', medium: 'MQTT', host: 'broker', username: 'me', password: next() }],
      receivers: [{ name: 'down', medium: 'MQTT', host: 'broker', password: next() }],
    },
    storage: { sql: { driver: { password: next() } } },
    RESOURCES: {
      application_config: { mqtt: { password: next() } },
      service_plugins: {
        relay: {
          apiToken: next(),
          wifiPassword: next(),
          clientSecret: next(),
          'X-Api-Key': next(),
          passphrases: [next(), next()],
          url: `mqtt://me:${next()}@broker:1883`,
          bare: `https://${next()}@host/`,
          query: `https://host/x?a=1&token=${next()}`,
          signed: `https://host/x?sig=${next()}`,
          hook: `https://hooks.example.com/services/T1/${next()}`,
          chat: `https://chat.example.com/api/webhooks/1/${next()}`,
          webhook: `https://host/${next()}`,
          headers: { Authorization: `Bearer ${next()}`, 'x-auth-token': next() },
          lines: [`X-Api-Key: ${next()}`, `password=${next()}`],
          pem: `-----BEGIN PRIVATE KEY-----\n${next()}\n-----END PRIVATE KEY-----`,
          nested: [{ deep: { psk: next(), preSharedKey: { value: next() } } }],
          appKey: next(),
          credentials: { user: 'me', text: next() },
        },
      },
    },
  }
  if (left.length > 0) throw new Error(`${left.length} secrets are planted nowhere`)
  return tree
}
