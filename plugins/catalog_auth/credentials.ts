/** What credentials stand for on the catalog's paths: a token in the URL is a bearer token, and the namespace asked for is the one in the path. */
import type { Credentials, Source } from 'svcdb'
import { isCatalogPath, isGeneralPath, namespaceOfPath } from './paths.ts'

const TOKEN = /^[\x21-\x7e]+$/

interface SourceOptions {
  queryToken: boolean
  /** Called for every token taken out of a URL. */
  onQueryToken(): void
  /** Called for the first. */
  onFirst(): void
}

export function catalogSource({ queryToken, onQueryToken, onFirst }: SourceOptions): Source {
  let met = false
  return (given) => {
    if (given.protocol !== 'http' || !isCatalogPath(given.path)) return given
    const headers = new Map<string, string>()
    const namespace = namespaceOfPath(given.path)
    // So that policies and quotas are asked about the namespace that is shown, whatever the caller's header says.
    if (namespace !== undefined) headers.set('x-namespace', namespace)
    const token = queryToken && !hasHeader(given) ? given.query('token') : undefined
    if (token !== undefined && token !== '') {
      onQueryToken()
      if (!met) onFirst()
      met = true
      // What no header could carry is a bad token, not a missing one.
      headers.set('authorization', TOKEN.test(token) ? `Bearer ${token}` : 'Bearer')
    }
    const anyNamespace = isGeneralPath(given.path)
    return { ...given, header: (name) => headers.get(name) ?? given.header(name), ...(anyNamespace && { anyNamespace }) }
  }
}

/** Whether the call came with an Authorization header. */
export function hasHeader(credentials: Credentials): boolean {
  return (credentials.header('authorization') ?? '').trim() !== ''
}
