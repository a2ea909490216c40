/** Keys that say how brokers are reached: of a connector, and of a sink. */
import { FILE_PATH, Secret } from 'svcdb'
import { type Static, Type } from 'svcdb/lib/schema'
import { withoutPasswords } from 'svcdb/lib/text'

const text = (description: string, more: object = {}) => Type.Optional(Type.String({ minLength: 1, maxLength: 1024, description, ...more }))

export const accessKeys = {
  brokers: text('Brokers to begin with, host:port, with commas between', { maxLength: 4096 }),
  client_id: text('How brokers know this connector in their logs and quotas; default svc-<name>', { maxLength: 128 }),
  security_protocol: Type.Enum(['PLAINTEXT', 'SSL', 'SASL_PLAINTEXT', 'SASL_SSL'], { default: 'PLAINTEXT', description: 'How brokers are spoken to' }),
  sasl_mechanism: Type.Optional(
    Type.Enum(['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'], { description: 'With SASL_PLAINTEXT and SASL_SSL: how the name is proven' }),
  ),
  sasl_username: text('User name'),
  sasl_password: Type.Optional(Secret.schema({ description: 'Password' })),
  credential_file: text('File of JSON with username and password, in place of those two; read at each connection', FILE_PATH),
  ca_cert: text('With SSL and SASL_SSL: PEM file of the authorities that brokers are checked by; default those of Node.js', FILE_PATH),
  client_cert: text('With SSL and SASL_SSL: PEM file of the certificate that is shown to brokers', FILE_PATH),
  client_key: text('PEM file of its key', FILE_PATH),
}

const accessSchema = Type.Object(accessKeys)

/** Where and as whom. */
export type AccessConfig = Static<typeof accessSchema> & { name: string }

/** @param where the section, for the message. @throws Error that says which keys contradict each other. */
export function checkAccess(where: string, config: Omit<AccessConfig, 'name'>): void {
  const { brokers, security_protocol: protocol, sasl_mechanism, sasl_username, sasl_password, credential_file, ca_cert, client_cert, client_key } = config
  if (brokers === undefined) throw new Error(`cannot use ${where}: it has no brokers; say where they are`)
  const wrong = brokersOf(brokers).find((broker) => !isAddress(broker))
  if (wrong !== undefined) throw new Error(`cannot use ${where}: broker "${withoutPasswords(wrong)}" is no host:port`)
  const hasSasl = protocol.startsWith('SASL_')
  const hasTls = protocol.endsWith('SSL')
  const named = (what: Record<string, unknown>): string | undefined => Object.keys(what).find((key) => what[key] !== undefined)
  const needless = named({ sasl_mechanism, sasl_username, sasl_password, credential_file })
  if (!hasSasl && needless !== undefined)
    throw new Error(`cannot use ${where}: ${needless} has no use with security_protocol ${protocol}; set SASL_SSL or SASL_PLAINTEXT, or leave it out`)
  if (hasSasl && sasl_mechanism === undefined)
    throw new Error(`cannot use ${where}: security_protocol ${protocol} needs sasl_mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512`)
  if (credential_file !== undefined && (sasl_username !== undefined || sasl_password !== undefined))
    throw new Error(`cannot use ${where}: credential_file has username and password; leave sasl_username and sasl_password out`)
  if (hasSasl && credential_file === undefined && (sasl_username === undefined || sasl_password === undefined))
    throw new Error(`cannot use ${where}: security_protocol ${protocol} needs credential_file, or sasl_username and sasl_password`)
  const certificate = named({ ca_cert, client_cert, client_key })
  if (!hasTls && certificate !== undefined)
    throw new Error(`cannot use ${where}: ${certificate} has no use with security_protocol ${protocol}; set SSL or SASL_SSL, or leave it out`)
  if ((client_cert === undefined) !== (client_key === undefined))
    throw new Error(`cannot use ${where}: client_cert and client_key belong together; give both or none`)
}

export function brokersOf(brokers: string): string[] {
  return brokers.split(',').map((broker) => broker.trim())
}

function isAddress(broker: string): boolean {
  const port = Number(/^(?:[^\s:[\]/]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})$/.exec(broker)?.[1])
  return port >= 1 && port <= 65_535
}
