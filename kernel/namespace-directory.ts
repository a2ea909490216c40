/** The namespaces there are. Whoever defines them provides the service NAMESPACES; others find it and ask. */
export const NAMESPACES = 'namespaces'

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

export interface NamespaceDefinition {
  name: string
  description: string
  owner: string
  quota: NamespaceQuota
}

/** The service NAMESPACES. */
export interface NamespaceDirectory {
  get(name: string): NamespaceDefinition | undefined
  /** By name. */
  list(): readonly NamespaceDefinition[]
}
