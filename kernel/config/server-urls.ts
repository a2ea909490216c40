/** Keys of [server] that are URLs and origins: what the patterns of their schema cannot say. */
import type { ServerConfig } from './schema.ts'
import { shown } from './shown.ts'

type UrlKeys = Pick<ServerConfig, 'public_url' | 'cors_allowed_origins' | 'allow_unsafe_cors'>

/** One line for each that is wrong. Of a section whose values may be of other types than the schema says: those are told elsewhere. */
export function urlProblems({ public_url: url, cors_allowed_origins: origins, allow_unsafe_cors }: Partial<UrlKeys>, file: string): string[] {
  const problems: string[] = []
  const refuse = (key: string, value: string, why: string) => void problems.push(`cannot use "server.${key}" ${shown(value)} in ${file}: ${why}`)
  if (typeof url === 'string' && /^https?:\/\/[^@]*$/.test(url) && !URL.canParse(url))
    refuse('public_url', url, 'it is no URL; write one such as https://svc.example')
  for (const origin of Array.isArray(origins) ? origins : []) {
    if (typeof origin !== 'string') continue
    if (origin === '*' && allow_unsafe_cors !== true)
      refuse('cors_allowed_origins', origin, 'any site could call the server from a browser; name the origins, or set server.allow_unsafe_cors')
    if (origin !== '*' && origin !== sentOrigin(origin)) refuse('cors_allowed_origins', origin, `no browser sends it so; write "${sentOrigin(origin)}"`)
  }
  return problems
}

/** As a browser sends it: without path, user and the usual port of its scheme. */
function sentOrigin(text: string): string {
  const url = URL.parse(text)
  if (url?.protocol === 'http:' || url?.protocol === 'https:') return url.origin
  // Of pages of extensions and apps, and "null" of files: what there is of them differs by browser.
  return text === 'null' || /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\s]+$/.test(text) ? text : 'https://grafana.example'
}
