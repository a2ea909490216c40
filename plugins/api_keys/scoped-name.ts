/**
 * Names of keys that a tenant's admin makes. A name stands for a caller everywhere: in policies, limits and the audit log. It is therefore one of the
 * whole server, and such an admin must neither take one nor learn which are taken: below the names of its own namespace it is free to choose.
 */
import type { CallContext } from 'svcdb'

/** @returns the name as it is kept. @param namespaces those of the key. @param multiTenancy whether namespaces are kept apart. */
export function keptName(name: string, namespaces: readonly string[], by: Pick<CallContext, 'namespaces'>, multiTenancy: boolean): string {
  if (!multiTenancy || by.namespaces.length === 0) return name
  const [first] = [...namespaces].sort()
  return `${first}/${name}`
}

/** @returns the name as an admin sees it: without the namespace, where there can be no other. */
export function shownName(name: string, { namespaces }: Pick<CallContext, 'namespaces'>, multiTenancy: boolean): string {
  const own = `${namespaces[0]}/`
  return multiTenancy && namespaces.length === 1 && name.startsWith(own) ? name.slice(own.length) : name
}

/** Names that a key may be kept under which an admin calls so, the likeliest first: those of older versions have no namespace. */
export function candidateNames(name: string, { namespaces }: Pick<CallContext, 'namespaces'>, multiTenancy: boolean): string[] {
  return multiTenancy && namespaces.length === 1 ? [`${namespaces[0]}/${name}`, name] : [name]
}
