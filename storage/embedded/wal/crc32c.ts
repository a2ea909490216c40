/** The log's checksum, where the formats of the storage expect it. */
export { crc32c } from '../../../kernel/crc32c.ts'
