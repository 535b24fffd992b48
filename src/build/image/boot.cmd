# U-Boot: starts the slot that the sector at 64 KiB of the card names (src/update/slots.ts). A try is counted down before it starts, so
# one that hangs or panics is not repeated. Where the sector cannot be read, slot A starts.
setenv at ${ramdisk_addr_r}
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
      fi
    fi
  fi
fi
echo os-node: boot partition ${slot}
load ${devtype} ${devnum}:${slot} ${at} cmdline.txt
# the line begins with console=, so the whole of it becomes the variable console
env import -t ${at} ${filesize}
setenv bootargs "console=${console}"
load ${devtype} ${devnum}:${slot} ${kernel_addr_r} kernel8.img
setenv kernel_comp_addr_r 0x50000000
setenv kernel_comp_size ${filesize}
load ${devtype} ${devnum}:${slot} ${ramdisk_addr_r} initramfs
booti ${kernel_addr_r} ${ramdisk_addr_r}:${filesize} ${fdtcontroladdr}
echo os-node: boot partition ${slot} does not start
sleep 5
reset
