/** How bodies of records, and what digests are made of, are written: RFC 8785. */
export { canonical } from 'svcdb/lib/json'
