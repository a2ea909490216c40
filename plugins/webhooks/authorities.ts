/** Authorities that receivers' certificates may be of. */
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { getCACertificates } from 'node:tls'

/** @returns those of Node.js and of the file; undefined where there is none. @throws Error where the file cannot be used. */
export async function authoritiesOf(file: string): Promise<string[] | undefined> {
  if (file === '') return undefined
  const refuse = (why: string, cause: unknown) =>
    new Error(`cannot use webhooks.ca_file "${file}": ${why}; name a PEM file of certificates, or leave the key out`, { cause })
  let pem: string
  try {
    pem = await readFile(file, 'utf8')
  } catch (error) {
    throw refuse((error as Error).message, error)
  }
  // OpenSSL would take nothing from it, and say nothing.
  try {
    new X509Certificate(pem)
  } catch (error) {
    throw refuse('it has no certificate', error)
  }
  return [...getCACertificates(), pem]
}
