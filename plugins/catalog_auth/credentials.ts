/** What credentials stand for on the catalog's paths: a token in the URL is a bearer token, and the namespace asked for is the one in the path. */
import { authorizationFromQuery, type Source } from 'svcdb'
import { isCatalogPath, isGeneralPath, namespaceOfPath } from './paths.ts'

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
    const authorization = queryToken ? authorizationFromQuery(given, 'token') : undefined
    if (authorization !== undefined) {
      onQueryToken()
      if (!met) onFirst()
      met = true
      headers.set('authorization', authorization)
    }
    const anyNamespace = isGeneralPath(given.path)
    return { ...given, header: (name) => headers.get(name) ?? given.header(name), ...(anyNamespace && { anyNamespace }) }
  }
}
