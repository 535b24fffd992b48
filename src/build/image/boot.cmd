# U-Boot: starts the slot that the sector at 64 KiB of the card names (src/update/slot-chooser.ts). The number of trial starts is decremented
# before each, so one that hangs or panics is not repeated. If the sector cannot be read, slot A starts.
# The image puts the addresses of its board before this script (src/build/image/boards.mjs): kernel, unpack (where it is unpacked to),
# ramdisk, and fdt if the device tree has to be moved, wdog and rstc if the board has the watchdog of a Raspberry Pi 3. A trial start arms
# it for 16 s, since a kernel that panics before it loads the driver would halt. The driver, first of the early system, continues it.
setenv at ${ramdisk}
setenv slot 2
if ${devtype} read ${at} 80 1; then
  if itest.l *${at} == 0x314e534f; then
    setexpr active ${at} + 4
    setexpr trying ${at} + 5
    setexpr tries ${at} + 6
    setexpr.b slot *${active}
    if itest.b *${tries} > 0; then
      setexpr.b left *${tries} - 1
      mw.b ${tries} ${left}
      if ${devtype} write ${at} 80 1; then
        setexpr.b slot *${trying}
        setenv tried 1
      fi
    fi
  fi
fi
echo os-node: boot partition ${slot}
load ${devtype} ${devnum}:${slot} ${at} cmdline.txt
# the line begins with console=, so all of it becomes the variable console
env import -t ${at} ${filesize}
setenv bootargs "console=${console}"
setenv tree ${fdtcontroladdr}
if test -n "${fdt}"; then
  fdt move ${tree} ${fdt} 20000
  setenv tree ${fdt}
fi
load ${devtype} ${devnum}:${slot} ${kernel} kernel8.img
setenv kernel_comp_addr_r ${unpack}
setenv kernel_comp_size ${filesize}
load ${devtype} ${devnum}:${slot} ${ramdisk} initramfs
if test -n "${tried}" -a -n "${wdog}"; then
  mw.l ${wdog} 5a0fffff
  mw.l ${rstc} 5a000122
fi
booti ${kernel} ${ramdisk}:${filesize} ${tree}
echo os-node: boot partition ${slot} does not start
sleep 5
reset
