// Writes two lists with which Raspberry Pi Imager offers an image and prompts for host name, key and Wi-Fi (schema: doc/json-schema of
// raspberrypi/rpi-imager): `<image>.imager.json` is for a web server, `<image>.rpi-imager-manifest` for this computer, where a double click
// opens it. Imager 1 and 2 then write the settings in the format cloudinit, which the board reads (root/usr/lib/os-node/imager).
import { createHash } from 'node:crypto'
import { closeSync, openSync, readSync, writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { pathToFileURL } from 'node:url'

/** Imager's tag of a board → the name that Imager shows. */
const DEVICES = {
  'pi3-64bit': 'Raspberry Pi 3 and Zero 2 W',
  'pi4-64bit': 'Raspberry Pi 4, 400 and Compute Module 4',
  'pi5-64bit': 'Raspberry Pi 5',
}
/** an icon that Imager contains */
const ICON = 'icons/use_custom.png'

/** Size and SHA-256 of a file. */
function measure(path) {
  const hash = createHash('sha256')
  const chunk = Buffer.alloc(2 ** 20)
  const fd = openSync(path, 'r')
  let size = 0
  try {
    for (let read; (read = readSync(fd, chunk)) > 0; size += read) hash.update(chunk.subarray(0, read))
  } finally {
    closeSync(fd)
  }
  return { size, sha256: hash.digest('hex') }
}

/** The list with one image, as Imager reads it; `url`: download address of `packed`. */
function osList({ image, packed }, { tag, board, version, builtAt, url }) {
  const whole = measure(image)
  const download = measure(packed)
  const device = {
    name: DEVICES[tag],
    description: DEVICES[tag],
    icon: ICON,
    tags: [tag],
    matching_type: 'exclusive',
    architecture: 'armv8',
  }
  const system = {
    name: `os-node ${version} (${board})`,
    description: 'Gateway that reads sensors and buses and forwards the readings',
    icon: ICON,
    url,
    extract_size: whole.size,
    extract_sha256: whole.sha256,
    image_download_size: download.size,
    image_download_sha256: download.sha256,
    release_date: new Date(builtAt).toISOString().slice(0, 10),
    devices: [tag],
    architecture: 'armv8',
    init_format: 'cloudinit',
  }
  return { imager: { devices: [device] }, os_list: [system] }
}

/**
 * Writes both files next to the image `image` and its packed form `<image>.xz`; returns their paths. `base`: address of the download folder;
 * without it the list for a web server has only the file name as address, to be completed.
 */
export function writeForImager(image, { base, ...about }) {
  const packed = `${image}.xz`
  const place = image.replace(/\.img$/, '')
  const name = basename(packed)
  const published = osList(
    { image, packed },
    { ...about, url: base ? new URL(name, base.replace(/\/*$/, '/')).href : name },
  )
  const local = structuredClone(published)
  local.os_list[0].url = pathToFileURL(packed).href
  const write = (path, list) => writeFileSync(path, `${JSON.stringify(list, null, 2)}\n`)
  write(`${place}.imager.json`, published)
  write(`${place}.rpi-imager-manifest`, local)
  return [`${place}.imager.json`, `${place}.rpi-imager-manifest`]
}
