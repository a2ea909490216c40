/** The namespaces there are, what each may hold, and how one comes and goes. The service NAMESPACES. */
import type { CallContext, Clock, NamespaceDefinition, NamespaceLifecycle, NamespaceQuota } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { defaultQuota, type NamespacesConfig } from './config.ts'
import { DEFAULT_NAMESPACE, type Definition } from './definition.ts'
import type { Owed } from './owed.ts'
import { NO_QUOTA } from './quota.ts'
import type { Registry } from './registry.ts'

export type Forget = (name: string) => void | Promise<void>

export interface DirectoryDependencies {
  registry: Registry
  owed: Owed
  config: NamespacesConfig
  multiTenancy: boolean
  clock: Clock
  /** Before a name is taken: resolves when nothing of who had it before is left here. */
  settle(): Promise<void>
  /** A namespace was refused because there are enough. */
  full(): void
}

export class Directory implements NamespaceLifecycle {
  readonly registry: Registry
  /** What others keep for a namespace and must forget. */
  readonly forgets: Forget[] = []
  /** Those of them that forget what is in memory here alone. */
  private readonly ends: Forget[] = []
  private readonly dependencies: DirectoryDependencies
  private readonly holds: ((name: string) => string | undefined)[] = []
  private readonly defaults: NamespaceQuota
  /** Under way by writes. */
  private readonly coming = new Map<string, Promise<void>>()

  constructor(dependencies: DirectoryDependencies) {
    this.dependencies = dependencies
    this.registry = dependencies.registry
    this.forgets.push((name) => dependencies.owed.leave(name))
    this.defaults = defaultQuota(dependencies.config)
  }

  /** Those being deleted are not there any more. */
  get(name: string): NamespaceDefinition | undefined {
    const known = this.registry.get(name)
    if (known === undefined) return name === DEFAULT_NAMESPACE ? this.defaultDefinition() : undefined
    return known.deleting ? undefined : this.seen(known)
  }

  list(): NamespaceDefinition[] {
    return this.shown(this.registry.names())
  }

  names(after: string, most: number): string[] {
    return this.registry.namesAfter(after, most)
  }

  /** A part of them, of which nothing else is looked at. */
  page(offset: number, limit: number): NamespaceDefinition[] {
    return this.shown(this.registry.names().slice(offset, offset + limit))
  }

  get count(): number {
    return this.registry.names().length
  }

  holdDelete(reason: (name: string) => string | undefined): void {
    this.holds.push(reason)
  }

  onDelete(forget: Forget, keeper?: string): void | Promise<void> {
    this.forgets.push(forget)
    if (keeper !== undefined) return this.dependencies.owed.begin(keeper, forget)
  }

  onEnd(forget: Forget): void {
    this.ends.push(forget)
    this.forgets.push(forget)
  }

  /** Another node has deleted it: resolves when nothing in memory here is of it. @throws what those who forget throw. */
  async end(name: string): Promise<void> {
    for (const forget of this.ends) await forget(name)
  }

  /** Why a namespace may not be deleted. */
  held(name: string): string | undefined {
    for (const reason of this.holds) {
      const held = reason(name)
      if (held !== undefined) return held
    }
    return undefined
  }

  isDeleting(name: string): boolean {
    return this.registry.get(name)?.deleting === true
  }

  quota(name: string): NamespaceQuota {
    const known = this.registry.get(name)
    return known === undefined ? this.quotaOf({ name, auto: true, quota: {} }) : this.quotaOf(known)
  }

  /** Those a definition would come out with. */
  quotaOf({ name, auto, quota }: Pick<Definition, 'name' | 'auto' | 'quota'>): NamespaceQuota {
    // On a node that keeps no data apart, nobody has asked for what comes by itself to be bounded.
    const unasked = !this.dependencies.multiTenancy && (auto || name === DEFAULT_NAMESPACE)
    return { ...(unasked ? NO_QUOTA : this.defaults), ...quota }
  }

  /** Durable when it resolves. @throws CONFLICT when it exists, RATE_LIMITED when there are enough. */
  async create(definition: Omit<Definition, 'createdAt' | 'deleting'>): Promise<void> {
    const { name } = definition
    await this.dependencies.settle()
    return this.registry.commit((definitions) => {
      const known = definitions.get(name)
      if (known?.deleting) throw new SvcError('CONFLICT', `cannot create namespace "${name}": one of this name is being deleted; retry when that is done`)
      if (known !== undefined || name === DEFAULT_NAMESPACE) {
        if (definition.auto) return
        throw new SvcError('CONFLICT', `cannot create namespace "${name}": it exists; PUT /api/v1/namespaces/${name}/quota changes its quota`)
      }
      if (definitions.size >= this.dependencies.config.max_namespaces) throw this.tooMany(name)
      definitions.set(name, { ...definition, createdAt: this.dependencies.clock.now(), deleting: false })
    })
  }

  /** @throws NOT_FOUND. */
  async setQuota(name: string, quota: Partial<NamespaceQuota>): Promise<void> {
    await this.registry.commit((definitions) => {
      const known = definitions.get(name)
      if (known?.deleting || (known === undefined && name !== DEFAULT_NAMESPACE)) throw unknownNamespace(name)
      const { createdAt } = known ?? { createdAt: this.dependencies.clock.now() }
      const base: Definition = known ?? { name, description: '', owner: 'admin', auto: false, createdAt, quota: {}, deleting: false }
      definitions.set(name, { ...base, quota: { ...base.quota, ...quota } })
    })
  }

  /**
   * Sees to it that the namespace of a call is there before something is written to it. Nothing to wait for when it is.
   * @throws NOT_FOUND, RATE_LIMITED.
   */
  ensure(name: string): void | Promise<void> {
    const refusal = this.refusal(name)
    if (refusal !== undefined) throw refusal
    if (name === DEFAULT_NAMESPACE || this.registry.get(name) !== undefined) return
    return this.come(name)
  }

  /** Why nothing is to be written to a namespace. */
  refusal(name: string): SvcError | undefined {
    const known = this.registry.get(name)
    if (known?.deleting) return new SvcError('NOT_FOUND', `cannot write to namespace "${name}": it is being deleted`)
    if (known !== undefined || name === DEFAULT_NAMESPACE) return undefined
    if (!this.dependencies.config.auto_create) return unknownNamespace(name)
    if (!this.coming.has(name) && this.registry.size + this.coming.size >= this.dependencies.config.max_namespaces) return this.tooMany(name)
    return undefined
  }

  /** Under auto_create = false: refuses calls that name a namespace there is not. */
  readonly admitted = ({ context, resource }: { context: Pick<CallContext, 'namespace' | 'anyNamespace'>; resource: string }): SvcError | undefined => {
    const { namespace, anyNamespace } = context
    // What creates namespaces must be reached by who has none yet.
    if (anyNamespace || resource.startsWith('/api/v1/namespaces') || this.get(namespace) !== undefined) return undefined
    return unknownNamespace(namespace)
  }

  /** Resolves when a namespace that a write has begun is there, or not. */
  async arrived(name: string): Promise<void> {
    await this.coming.get(name)?.catch(() => {})
  }

  /** Durable when it resolves; calls for one name at a time share what is under way. */
  come(name: string): Promise<void> {
    let coming = this.coming.get(name)
    if (coming === undefined) {
      coming = this.create({ name, description: '', owner: 'admin', auto: true, quota: {} }).finally(() => this.coming.delete(name))
      this.coming.set(name, coming)
    }
    return coming
  }

  /** One that has data already, however many there are. */
  adopt(name: string): Promise<void> {
    return this.registry.commit((definitions) => {
      if (definitions.has(name) || name === DEFAULT_NAMESPACE) return
      definitions.set(name, { name, description: '', owner: 'admin', auto: true, createdAt: this.dependencies.clock.now(), quota: {}, deleting: false })
    })
  }

  private tooMany(name: string): SvcError {
    this.dependencies.full()
    const most = this.dependencies.config.max_namespaces
    return new SvcError('RATE_LIMITED', `cannot create namespace "${name}": there are ${most}, as many as [namespaces] max_namespaces allows`)
  }

  private shown(names: readonly string[]): NamespaceDefinition[] {
    return names.map((name) => this.get(name) as NamespaceDefinition)
  }

  private seen(definition: Definition): NamespaceDefinition {
    const { name, description, owner, createdAt } = definition
    return { name, description, owner, quota: this.quotaOf(definition), createdAt }
  }

  private defaultDefinition(): NamespaceDefinition {
    return { name: DEFAULT_NAMESPACE, description: '', owner: 'admin', quota: this.quotaOf({ name: DEFAULT_NAMESPACE, auto: true, quota: {} }) }
  }
}

export function unknownNamespace(name: string): SvcError {
  return new SvcError('NOT_FOUND', `cannot find namespace "${name.slice(0, 64)}": there is none of this name; POST /api/v1/namespaces creates one`)
}
