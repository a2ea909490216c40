import { type Static, Type } from 'svcdb/lib/schema'

const MAX_CLIENTS = 10_000
const MAX_LIST = 1000
const names = (description: string) => Type.Array(Type.String({ minLength: 1, maxLength: 256 }), { default: [], maxItems: MAX_LIST, description })

const client = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 2048, description: 'The name in the certificate, exactly; there are no wildcards' }),
  namespaces: names('Namespaces it may name; none, or ["*"] = all. Under server.multi_tenancy some must be named, and only an admin may have ["*"]'),
  roles: names('Roles, for policies'),
  admin: Type.Boolean({ default: false, description: 'Whether it may administer the server' }),
  fingerprints_sha256: names('SHA-256 fingerprints, as openssl prints them, one of which its certificate must have; empty = any that the authority signed'),
})

export const configSchema = Type.Object({
  identity: Type.Enum(['cn', 'san_dns', 'san_uri', 'san_email'], {
    default: 'cn',
    description: 'What of a certificate is the name: the common name, or where it has none its DNS names; or subject alternative names of one kind only',
  }),
  unknown: Type.Enum(['refuse', 'allow'], {
    default: 'refuse',
    description: 'Certificates that hold and are of nobody in clients: refuse, or allow without roles, as no admin and for all namespaces',
  }),
  clients: Type.Array(client, { default: [], maxItems: MAX_CLIENTS, description: 'Who is known' }),
})

export type MtlsConfig = Static<typeof configSchema>
export type ClientConfig = MtlsConfig['clients'][number]
export type IdentityKind = MtlsConfig['identity']
