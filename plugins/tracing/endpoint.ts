/** Where spans are sent. */
import { withoutPasswords } from 'svcdb/lib/text'
import type { TracingConfig } from './config.ts'

const PORTS = { grpc: 4317, http_protobuf: 4318 }

/** @returns the URL with its port, and over HTTP with its path. @throws Error for what is no URL, or has a user, a query or a fragment. */
export function endpointUrl({ endpoint, protocol }: Pick<TracingConfig, 'endpoint' | 'protocol'>): string {
  const refused = (why: string) => new Error(`cannot use tracing.endpoint "${withoutPasswords(endpoint)}": ${why}`)
  const url = URL.parse(endpoint)
  if (url === null) throw refused('it is no URL; write one such as http://localhost:4317')
  if (url.username !== '' || url.password !== '') throw refused('it has a user or a password; use tracing.authorization')
  if (url.search !== '' || url.hash !== '') throw refused('it has a query or a fragment; leave them out')
  // URL drops a port that is the usual one of its scheme.
  const given = /^https?:\/\/[^/]*:(\d+)(\/|$)/.exec(endpoint)?.[1]
  const origin = `${url.protocol}//${url.hostname}:${given ?? PORTS[protocol]}`
  if (protocol === 'grpc') return origin
  return `${origin}${url.pathname === '/' ? '/v1/traces' : url.pathname}`
}
