/** Makes, lists and revokes keys for admins, who cannot reach beyond their own credential. One change at a time. */
import { type AuditAction, type AuditLog, audited, type CallContext, type Clock, type Logger, requireStanding } from 'svcdb'
import { classify, SvcError } from 'svcdb/lib/errors'
import { MAX_KEYS } from './config.ts'
import { type ApiKey, hasExpired, isFullAdmin, isHomeless, nameProblem, namespaceProblems } from './key.ts'
import type { KeySources } from './key-sources.ts'
import { newKey } from './new-key.ts'
import type { CreateBody, KeyView } from './schemas.ts'
import { candidateNames, keptName, shownName } from './scoped-name.ts'
import { Serial } from './serial.ts'

interface AdminDependencies {
  sources: KeySources
  prefix: string
  multiTenancy: boolean
  maxKeysPerNamespace: number
  clock: Clock
  log: Logger
  audit(): AuditLog | undefined
  /** Whether admins get in by other means as well. */
  hasOtherWayIn(): boolean
}

interface Page {
  items: KeyView[]
  total: number
  offset: number
  limit: number
}

type Changed = Pick<ApiKey, 'id' | 'name' | 'namespaces' | 'admin'>

export class KeyAdmin {
  private readonly dependencies: AdminDependencies
  private readonly serial = new Serial()

  constructor(dependencies: AdminDependencies) {
    this.dependencies = dependencies
  }

  create(body: CreateBody, context: CallContext): Promise<KeyView & { key: string }> {
    const { prefix, clock, sources } = this.dependencies
    requireAdmin(context)
    const wanted = this.wanted(body, context)
    return this.serial.run(async () => {
      // Of a key that was revoked while it waited, say with its namespace.
      requireStanding(context, clock.now())
      await sources.refresh()
      if (sources.isNameTaken(wanted.name) || this.find(this.shown(wanted.name, context), context) !== undefined)
        throw new SvcError(
          'CONFLICT',
          `cannot make API key ${JSON.stringify(this.shown(wanted.name, context))}: the name is in use; choose another, or revoke that key first`,
        )
      if (sources.isFull())
        throw new SvcError('CONFLICT', `cannot make API key ${JSON.stringify(wanted.name)}: there are ${MAX_KEYS}, which is the limit; revoke some`)
      this.refuseFull(wanted, context)
      const { text, record } = await newKey(wanted, prefix, clock.now())
      const key = await this.change('api_key_create', { ...wanted, id: record.id }, context, () => sources.add(record))
      this.dependencies.log.info({ key_name: key.name, key_id: key.id, by: context.principal, source: key.source }, 'API key made')
      return { key: text, ...this.viewOf(key, context) }
    })
  }

  async list({ offset, limit }: { offset: number; limit: number }, context: CallContext): Promise<Page> {
    const { sources } = this.dependencies
    requireAdmin(context)
    await sources.refresh()
    const within = sources.keyring.values().filter((key) => isWithin(key, context))
    const seen = within.map((key) => ({ key, name: this.shown(key.name, context) })).sort((a, b) => (a.name < b.name ? -1 : 1))
    return { items: seen.slice(offset, offset + limit).map(({ key }) => this.viewOf(key, context)), total: seen.length, offset, limit }
  }

  revoke(name: string, context: CallContext): Promise<void> {
    const { sources, log } = this.dependencies
    requireAdmin(context)
    return this.serial.run(async () => {
      await sources.refresh()
      const key = this.find(name, context)
      if (key === undefined) throw new SvcError('NOT_FOUND', `cannot revoke API key ${JSON.stringify(name.slice(0, 128))}: there is no such key`)
      this.refuseLastAdmin(key)
      await this.change('api_key_revoke', key, context, () => sources.remove(key))
      log.info({ key_name: key.name, key_id: key.id, by: context.principal, source: key.source }, 'API key revoked')
    })
  }

  /** A namespace is gone: its keys are revoked, and those that have others as well are for them alone. */
  forgetNamespace(namespace: string): Promise<void> {
    const { sources, log, audit } = this.dependencies
    return this.serial.run(() =>
      sources.forgetNamespace(namespace, async ({ id, name, admin }, left) => {
        const action = left.length === 0 ? 'api_key_revoke' : 'permission_change'
        const metadata = { event: 'namespace', key_id: id, namespaces: left.join(','), admin: String(admin) }
        await audit()?.record({ action, resource: name, decision: 'allow', metadata })
        log.info(
          { key_name: name, key_id: id, namespace },
          left.length === 0 ? 'API key revoked with its namespace' : 'API key left a namespace that is deleted',
        )
      }),
    )
  }

  /** The key that the caller calls so, if it may know of it. */
  private find(name: string, context: CallContext): ApiKey | undefined {
    const { keyring } = this.dependencies.sources
    const found = candidateNames(name, context, this.dependencies.multiTenancy).map((candidate) => keyring.get(candidate))
    return found.find((key) => key !== undefined && isWithin(key, context))
  }

  private shown(name: string, context: CallContext): string {
    return shownName(name, context, this.dependencies.multiTenancy)
  }

  private viewOf(key: ApiKey, context: CallContext): KeyView {
    return { ...viewOf(key), name: this.shown(key.name, context) }
  }

  /** What the body asks for, once it is known to be allowed. */
  private wanted({ name: given, expires_at: expiresAt, namespaces, roles = [], admin = false }: CreateBody, context: CallContext) {
    const { multiTenancy, clock } = this.dependencies
    const name = given.trim()
    const refused = (why: string) => new SvcError('BAD_REQUEST', `cannot make API key ${JSON.stringify(name.slice(0, 128))}: ${why}`)
    const problem = nameProblem(name) ?? namespaceProblems({ namespaces: namespaces ?? [] })[0]
    if (problem !== undefined) throw new SvcError('BAD_REQUEST', problem)
    if (expiresAt !== undefined && hasExpired({ expiresAt }, clock.now())) throw refused('expires_at has passed; it is in Unix seconds')
    if (multiTenancy && isHomeless({ admin, namespaces: namespaces ?? [] }))
      throw refused('server.multi_tenancy needs namespaces; name those that the key may use, or ["*"] with "admin": true for all')
    const kept = keptName(name, namespaces ?? [], context, multiTenancy)
    const tooLong = nameProblem(kept)
    if (tooLong !== undefined) throw new SvcError('BAD_REQUEST', tooLong)
    const wanted = { name: kept, namespaces: namespaces ?? [], roles, admin, ...(expiresAt === undefined ? {} : { expiresAt }) }
    if (!isWithin(wanted, context))
      throw new SvcError(
        'FORBIDDEN',
        `cannot make API key ${JSON.stringify(name)} as "${context.principal}": its namespaces must be among those of your own credential; name some of them`,
      )
    const foreign = context.namespaces.length === 0 ? undefined : roles.find((role) => !context.roles.includes(role))
    if (foreign !== undefined)
      throw new SvcError(
        'FORBIDDEN',
        `cannot make API key ${JSON.stringify(name)} as "${context.principal}": your own credential lacks the role ${JSON.stringify(foreign)}`,
      )
    return wanted
  }

  /** One namespace's admin cannot take the room of all others. */
  private refuseFull({ name, namespaces }: Pick<Changed, 'name' | 'namespaces'>, context: CallContext): void {
    if (context.namespaces.length === 0) return
    const { sources, maxKeysPerNamespace: most } = this.dependencies
    const made = sources.keyring.values().filter(({ source }) => source !== 'config')
    const full = namespaces.find((namespace) => made.filter((key) => key.namespaces.includes(namespace)).length >= most)
    if (full !== undefined)
      throw new SvcError(
        'CONFLICT',
        `cannot make API key ${JSON.stringify(this.shown(name, context))}: namespace ${JSON.stringify(full)} has ${most}, which is auth.api_key.max_keys_per_namespace; revoke some`,
      )
  }

  private refuseLastAdmin(key: ApiKey): void {
    const { sources, clock, hasOtherWayIn, log } = this.dependencies
    const isUsable = (one: ApiKey) => isFullAdmin(one) && !hasExpired(one, clock.now())
    if (!isUsable(key) || sources.keyring.values().some((other) => other !== key && isUsable(other))) return
    if (!hasOtherWayIn())
      throw new SvcError(
        'CONFLICT',
        `cannot revoke API key ${JSON.stringify(key.name)}: it is the last with which everything can be administered; make another admin key first`,
      )
    log.warn({ key_name: key.name }, 'the last API key of an admin over everything is being revoked: only other credentials can administer the server now')
  }

  /** Records it and does it. @throws SvcError that says what was not done; a full disk stays what it is. */
  private change<T>(action: AuditAction, key: Changed, by: CallContext, act: () => Promise<T>): Promise<T> {
    const { name, id, namespaces, admin } = key
    const metadata = { key_id: id, namespaces: namespaces.join(','), admin: String(admin) }
    return audited(this.dependencies.audit(), { action, resource: name, decision: 'allow', by, metadata }, async () => {
      try {
        return await act()
      } catch (error) {
        const known = classify(error)
        const verb = action === 'api_key_create' ? 'keep' : 'revoke'
        throw PASSED_ON.has(known.code)
          ? known
          : new SvcError('IO_ERROR', `cannot ${verb} API key ${JSON.stringify(name)}: ${(error as Error).message}`, { cause: error })
      }
    })
  }
}

/** They say what to do: free space, come again, choose another name. */
const PASSED_ON: ReadonlySet<string> = new Set(['STORAGE_FULL', 'OVERLOADED', 'DATABASE_CLOSED', 'CONFLICT'])

/** The kernel has seen to it, unless the path was exempted from credentials. */
function requireAdmin({ admin, principal }: CallContext): void {
  if (!admin) throw new SvcError('FORBIDDEN', `cannot administer API keys as "${principal}": an admin credential is needed`)
}

/** Whether the key reaches no further than the caller does. */
function isWithin({ namespaces }: { namespaces: readonly string[] }, { namespaces: own }: CallContext): boolean {
  return own.length === 0 || (namespaces.length > 0 && namespaces.every((name) => own.includes(name)))
}

/** Never the text nor the hash. */
function viewOf({ id, name, source, enabled, identity, namespaces, roles, admin, createdAt, expiresAt, usage }: ApiKey): KeyView {
  const tenant = identity.claims.tenant_id
  const tenant_id = typeof tenant === 'string' ? tenant : null
  const times = { created_at: createdAt ?? null, expires_at: expiresAt ?? null, last_used_at: usage.at ?? null, usage_count: usage.count }
  return { id, name, source, enabled, tenant_id, namespaces: [...namespaces], roles: [...roles], admin, ...times }
}
