INSERT INTO os_writers (origin, seq, packets) VALUES (7, 2, 1);

INSERT INTO os_packets_data VALUES (1, 2, UNHEX('6F1D6BD05A3C5B0E9D5B0C1B8A9F2E11'), 'dev', 'ONLINE', 1772323200, 1772323201,
  1772323200000, 1, 0, NULL);

INSERT INTO os_sensors_data VALUES (1, 2, 1, 'temp', 'OK', 294.5, 'K'), (1, 2, 2, 'hum', 'OK', 40, '%');
