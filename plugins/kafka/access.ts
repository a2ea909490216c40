/** How brokers are reached, out of the configuration and its files. */
import { readFile } from 'node:fs/promises'
import { credentialsIn } from 'svcdb/lib/source'
import { type AccessConfig, brokersOf } from './access-config.ts'
import type { Access } from './client.ts'

/** @throws Error for files that cannot be read. */
export async function accessOf(config: AccessConfig): Promise<Access> {
  const { name, brokers = '', client_id, security_protocol: protocol, sasl_mechanism: mechanism } = config
  const pem = async (file: string | undefined): Promise<Buffer | undefined> => (file === undefined ? undefined : readFile(file))
  const [ca, cert, key] = await Promise.all([pem(config.ca_cert), pem(config.client_cert), pem(config.client_key)])
  return {
    brokers: brokersOf(brokers),
    clientId: client_id ?? `svc-${name}`,
    tls: protocol.endsWith('SSL') ? { ...(ca !== undefined && { ca }), ...(cert !== undefined && { cert }), ...(key !== undefined && { key }) } : undefined,
    sasl: mechanism === undefined ? undefined : { mechanism, ...(await credentials(config)) },
  }
}

async function credentials({ credential_file: file, sasl_username, sasl_password }: AccessConfig): Promise<{ username: string; password: string }> {
  if (file === undefined) return { username: sasl_username ?? '', password: sasl_password?.reveal() ?? '' }
  const { username, password } = await credentialsIn(file)
  if (password === undefined) throw new Error(`cannot use ${file}: it has no password`)
  return { username, password }
}
