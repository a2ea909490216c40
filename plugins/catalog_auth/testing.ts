/** For tests: namespaces, and an authenticator that knows a few tokens, in place of the plugins that bring them. */
import { definePlugin, type Identity, NAMESPACES, type NamespaceDefinition, type NamespaceDirectory, type Plugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type BootOptions, boot, type TestNode } from 'svcdb/testkit'
import catalogAuth from './index.ts'

const quota = {
  max_series_count: 1_000_000,
  max_ingestion_rate: 100_000,
  max_storage_bytes: 107_374_182_400,
  max_measurements: 1000,
  max_models: 0,
  max_request_rps: 0,
  max_request_burst: 0,
}

/** What the namespaces are can be changed while the node runs. */
export class Directory implements NamespaceDirectory {
  private readonly known = new Map<string, NamespaceDefinition>()

  constructor(names: readonly string[]) {
    for (const name of names) this.add(name)
  }

  add(name: string): void {
    this.known.set(name, { name, description: `about ${name}`, owner: `owner of ${name}`, quota })
  }

  remove(name: string): void {
    this.known.delete(name)
  }

  get(name: string): NamespaceDefinition | undefined {
    return this.known.get(name)
  }

  list(): readonly NamespaceDefinition[] {
    return [...this.known.values()].sort((a, b) => a.name.localeCompare(b.name))
  }

  names(after: string, most: number): readonly string[] {
    const names = [...this.known.keys()].filter((name) => name > after)
    return names.sort().slice(0, most)
  }
}

export const directoryPlugin = (directory: NamespaceDirectory): Plugin =>
  definePlugin({
    id: 'directory',
    summary: 'Namespaces for the tests',
    stability: 'experimental',
    provides: [NAMESPACES],
    setup: (svc) => svc.provide(NAMESPACES, directory),
  })

const identity = (principal: string, more: Partial<Identity> = {}): Identity => ({
  principal,
  method: 'api_key',
  claims: {},
  namespaces: [],
  admin: false,
  ...more,
})

/** By token. */
export const CALLERS: Record<string, Identity | SvcError> = {
  red: identity('ann', { namespaces: ['red'], roles: ['reader'] }),
  two: identity('bob', { namespaces: ['red', 'blue', 'gone'] }),
  any: identity('eve', { claims: { key_id: 'k-5' } }),
  root: identity('root', { admin: true }),
  chief: identity('kim', { namespaces: ['red'], admin: true }),
  user: identity('u-17', {
    method: 'jwt',
    namespaces: ['blue'],
    claims: { tenant_id: 'acme', name: 'Uma' },
    roles: ['catalog-admin'],
    expiresAt: Date.UTC(2030, 0, 2),
  }),
  machine: identity('CN=pump', { method: 'mtls', namespaces: ['blue'] }),
  strange: identity('s', { method: 'ldap', expiresAt: Number.POSITIVE_INFINITY }),
  denied: identity('dan', { namespaces: ['red'] }),
  greedy: identity('gus', { namespaces: ['red'] }),
  late: new SvcError('UNAUTHORIZED', 'the token has expired; get a new one'),
  broken: new SvcError('IO_ERROR', 'cannot read the keys'),
}

export const authPlugin: Plugin = definePlugin({
  id: 'callers',
  summary: 'Tokens, a policy and a limit for the tests',
  stability: 'experimental',
  setup(svc) {
    svc.auth.authenticator(({ header }) => CALLERS[/^bearer (.*)$/i.exec(header('authorization') ?? '')?.[1] ?? ''])
    svc.auth.authorizer(({ context }) => (context.principal === 'dan' ? new SvcError('FORBIDDEN', 'cannot read as "dan": no policy permits it') : undefined))
    svc.auth.limiter({
      admitted: ({ context }) =>
        context.principal === 'gus'
          ? new SvcError('RATE_LIMITED', 'cannot answer: too many requests', { headers: { 'retry-after': '7', 'x-ratelimit-limit': '5' } })
          : undefined,
    })
    svc.http.get('/elsewhere', async (request) => svc.context(request).principal)
  },
})

interface CatalogOptions extends Omit<BootOptions, 'plugins' | 'config'> {
  /** Of [catalog_auth]; the audit log is left out unless it says otherwise. */
  catalog?: Record<string, unknown>
  auth?: Record<string, unknown>
  server?: Record<string, unknown>
  config?: BootOptions['config']
  directory?: Directory
  /** Default: with the callers above. */
  plugins?: readonly Plugin[]
}

export async function bootCatalog({ catalog, auth, server, config, directory, plugins = [authPlugin], ...more }: CatalogOptions = {}): Promise<TestNode> {
  return boot({
    ...more,
    plugins: [directoryPlugin(directory ?? new Directory(['default', 'red', 'blue', 'green'])), ...plugins, catalogAuth],
    config: {
      catalog_auth: { audit_sink: 'none', ...catalog },
      ...(auth === undefined ? {} : { auth }),
      ...(server === undefined ? {} : { server }),
      ...config,
    } as never,
  })
}

export const bearer = (token: string, more: Record<string, string> = {}) => ({ authorization: `Bearer ${token}`, ...more })
