import { AUTH_RANK, definePlugin } from 'svcdb'
import { mtlsAuthenticator } from './authenticator.ts'
import { Clients } from './clients.ts'
import { configSchema } from './config.ts'

export default definePlugin({
  id: 'mtls',
  summary: 'Knows clients by their certificates, on every listener',
  stability: 'stable',
  section: 'auth.mtls',
  config: configSchema,
  provides: ['mtls'],
  setup(svc, config) {
    if (svc.tls?.client_ca === undefined)
      throw new Error('it needs an authority that signs the certificates of clients, and none is configured; set tls.client_ca, tls.cert and tls.key')
    const clients = new Clients(config, svc.server.multi_tenancy)
    const calls = svc.metrics.counter('mtls_calls_total', 'Calls with a client certificate that holds, by what came of it: accepted, unknown, invalid', [
      'result',
    ])
    svc.auth.authenticator(mtlsAuthenticator({ identity: config.identity, clients, now: () => svc.clock.now(), calls }), AUTH_RANK.certificate)
    svc.provide('mtls', { clients: clients.size })
    svc.start(() => {
      if (clients.size === 0 && config.unknown === 'refuse')
        svc.log.warn('nobody is listed in auth.mtls.clients: every call with a client certificate is refused')
    })
  },
})
