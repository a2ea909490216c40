/** The namespaces there are. Whoever defines them provides the service NAMESPACES, a `NamespaceLifecycle`; others find it and ask. */
export const NAMESPACES = 'namespaces'

/** The service of whoever may hold callers to `max_request_rps` and `max_request_burst` of quotas, a `RequestLimits`. */
export const REQUEST_LIMITS = 'request_limits'

/** The service REQUEST_LIMITS. */
export interface RequestLimits {
  /** False where limits are switched off. */
  readonly enforced: boolean
}

/** Bounds of one namespace; 0 = none. */
export interface NamespaceQuota {
  max_series_count: number
  /** Points a second. */
  max_ingestion_rate: number
  /** Bytes. */
  max_storage_bytes: number
  max_measurements: number
  max_models: number
  /** Requests a second, and at once. */
  max_request_rps: number
  max_request_burst: number
}

/** A namespace that was defined, with its bounds. */
export interface NamespaceDefinition {
  name: string
  description: string
  owner: string
  quota: NamespaceQuota
  /** Milliseconds since the Unix epoch: one that was deleted and made anew by the same name has another. Absent where that is not known, as of `default` mostly. */
  createdAt?: number
}

/** The service NAMESPACES. */
export interface NamespaceDirectory {
  get(name: string): NamespaceDefinition | undefined
  /** By name. */
  list(): readonly NamespaceDefinition[]
  /** Those behind a name, in the order of their code units: costs as much as it gives. @param after '' = from the first. @param most of them */
  names(after: string, most: number): readonly string[]
}

/** What the service NAMESPACES is to those who keep something for namespaces themselves. */
export interface NamespaceLifecycle extends NamespaceDirectory {
  /** Keeps namespaces from being deleted. @param reason why one must stay, such as `it has 2 rollups`; undefined = it may go. */
  holdDelete(reason: (name: string) => string | undefined): void
  /**
   * Has what is kept for a namespace forgotten: called under multi_tenancy when its points are gone and before the name is free again. Called again,
   * after a restart too, until it has not thrown.
   * @param keeper the plugin's id, of one that keeps something over restarts: it is called in its start for namespaces that went while the plugin was not
   * selected, also where there is another one of the name by now. @returns resolves when that is done; with `keeper` the start has to wait for it.
   */
  onDelete(forget: (name: string) => void | Promise<void>, keeper?: string): void | Promise<void>
  /**
   * Has what this process keeps in memory for a namespace forgotten: called under multi_tenancy on every node that shares the state store, when it hears that the
   * namespace has gone and before it knows another one of the name. That one may have something in the state store by then: nothing is removed there. Called
   * again until it has not thrown.
   */
  onEnd(forget: (name: string) => void | Promise<void>): void
}

/**
 * Whether callers have to do with what is in a namespace of the storage. Where server.multi_tenancy was switched since, nobody has: what a plugin does there by itself
 * rests until it is switched back, for `systemContext` would lead elsewhere. @param namespace '' is that of a node that keeps namespaces together.
 */
export function isWithinReach(namespace: string, multiTenancy: boolean): boolean {
  return multiTenancy === (namespace !== '')
}
